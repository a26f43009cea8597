"""What is wrong with a file that is not YAML, said as one finding: in the user's words where the cause is known."""

import re

import yaml

from activator_ext.adapters.local.composer import BadYaml
from activator_ext.adapters.local.findings import Findings

_CONFLICT = re.compile(r"^(<{7}|>{7}) .*$|^={7}$", re.MULTILINE)
_TEMPLATE = "{{"


def report(
    file: str, text: str, error: BadYaml | yaml.MarkedYAMLError | yaml.reader.ReaderError, findings: Findings
) -> None:
    """The finding for what stopped the reading."""
    line, key, message, fix = _said(text, error)
    conflict = _CONFLICT.search(text)
    if conflict:
        line, key = text.count("\n", 0, conflict.start()) + 1, ""
        message, fix = "a merge conflict is not resolved", "Keep one of the two versions and remove the marks."
    elif _TEMPLATE in _line(text, line):
        fix = "Quote text that holds {{. If the file is a template, give what it renders to (helm template)."
    findings.error(file, line, key, message, fix)


def _line(text: str, number: int) -> str:
    """Line `number`, from 1, as PyYAML counts them."""
    lines = text.splitlines()
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _said(text: str, error: BadYaml | yaml.MarkedYAMLError | yaml.reader.ReaderError) -> tuple[int, str, str, str]:
    """Line, key, message and fix."""
    if isinstance(error, BadYaml):
        return error.line, error.key, error.message, error.fix
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return line, "", f"character U+{error.character:04X} is not allowed", "Remove it."
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    problem = (error.problem or "it cannot be read").strip()
    if "duplicate anchor" in (error.context or ""):
        problem = "an anchor of this name stands above"
    fix = "Correct the YAML here or on the line above."
    if "'\\t'" in problem:
        problem, fix = "a tab is used for indentation", "Indent with spaces."
    elif "undefined alias" in problem:
        fix = "Define it above with &name."
    return line, "", f"not valid YAML: {problem}", fix
