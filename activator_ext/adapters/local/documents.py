"""YAML text → plain values that know their lines.

Bounded: no input makes it raise, recurse deeply or grow without end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from activator_ext.adapters.local.findings import Findings, quoted

MAX_BYTES = 4 * 2**20
"""Largest file. A thousand services with their runtimes are about 1 MiB."""
MAX_NODES = 100_000
"""Most values of one file, those that an alias repeats counted each time: what stops a bomb of aliases."""
MAX_DEPTH = 64
"""Deepest nesting. A Kubernetes pod is about 12 deep."""
_MAX_KEY = 80
_MAX_NUMBER = 64
"""Longest number, in characters: reading one takes time with the square of its length."""

Step = str | int
Path = tuple[Step, ...]
Where = tuple[str, int, str]

_MERGE = "tag:yaml.org,2002:merge"
_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")} | {_MERGE}


@dataclass(frozen=True)
class Document:
    """One YAML document that is a mapping. `lines` gives the line (from 1) of each key and item by its path."""

    file: str
    data: dict[str, Any]
    lines: Mapping[Path, int]
    root: Path = ()

    def line(self, path: Path = ()) -> int:
        """The line of `path` or, where it does not exist, of its nearest existing parent."""
        full = self.root + path
        while full not in self.lines and full:
            full = full[:-1]
        return self.lines.get(full, 1)

    def where(self, path: Path = ()) -> Where:
        """File, line and dotted key of `path`: the first three arguments of a finding."""
        return (self.file, self.line(path), key_text(path))

    def has(self, path: Path) -> bool:
        """Whether the key stands in the document."""
        return self.root + path in self.lines

    def at(self, path: Path) -> "Document":
        """The mapping at `path` as a document of its own (an item of a `List`)."""
        data: Any = self.data
        for step in path:
            data = data[step]
        return Document(self.file, data, self.lines, self.root + path)


@dataclass(frozen=True)
class Word:
    """One text of a file with its place."""

    text: str
    where: Where


def key_text(path: Path) -> str:
    """`("spec", "schedules", 0, "until")` → `spec.schedules[0].until`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step[:_MAX_KEY]}" if text else step[:_MAX_KEY]
    return text


def parse(file: str, content: bytes, findings: Findings) -> list[Document]:
    """Every document of a file up to the first syntax error; empty ones are skipped."""
    if len(content) > MAX_BYTES:
        findings.error(file, 1, "", f"the file is larger than {MAX_BYTES // 2**20} MiB", "Split it into several files.")
        return []
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        findings.error(file, line, "", f"byte {error.start} is not UTF-8", "Save the file as UTF-8.")
        return []
    documents: list[Document] = []
    try:
        documents.extend(_documents(file, text, findings))
    except _BadYaml as error:
        findings.error(file, error.line, error.key, error.message, error.fix)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        findings.error(file, line, "", f"character U+{error.character:04X} is not allowed", "Remove it.")
    except yaml.MarkedYAMLError as error:
        _syntax_error(file, error, findings)
    return documents


class _BadYaml(Exception):
    def __init__(self, node: Node, message: str, fix: str, path: Path = ()) -> None:
        super().__init__(message)
        self.line = node.start_mark.line + 1
        self.key, self.message, self.fix = key_text(path), message, fix


class _Loader(yaml.SafeLoader):
    """Composes nodes and counts them. The pure Python loader: libyaml's recursion would overflow the C stack."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0
        self._depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        self._nodes += 1
        self._depth += 1
        if self._nodes > MAX_NODES:
            _refuse(self, f"more than {MAX_NODES} values in one file", "Split the file.")
        if self._depth > MAX_DEPTH:
            _refuse(self, f"nested more than {MAX_DEPTH} deep", "Flatten it; no object of ours is that deep.")
        node: Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _refuse(loader: _Loader, message: str, fix: str) -> None:
    mark = loader.get_mark()
    raise _BadYaml(ScalarNode("", "", mark, mark), message, fix)


# Dates and `=` stay text: to Kubernetes, whose values come from JSON, they are text too.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in _TAGS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _documents(file: str, text: str, findings: Findings) -> Iterator[Document]:
    loader = _Loader(text)
    budget = _Budget(MAX_NODES)
    while (node := _next_node(loader)) is not None:
        reader = _Reader(file, findings, budget)
        data = reader.value(node, ())
        if data is None:
            continue
        if not isinstance(data, dict):
            fix = "Write apiVersion, kind, metadata and spec at the left edge."
            findings.error(file, node.start_mark.line + 1, "", "the document is not an object", fix)
            continue
        yield Document(file, data, reader.lines)


def _next_node(loader: _Loader) -> Node | None:
    """The next document's root; None after the last one."""
    try:
        return loader.get_node() if loader.check_node() else None
    except (ValueError, OverflowError) as error:  # an escape such as "\\UFFFFFFFF" beyond Unicode
        mark = loader.get_mark()
        raise _BadYaml(ScalarNode("", "", mark, mark), "not valid YAML: no such character", "Remove it.") from error


@dataclass
class _Budget:
    left: int
    depth: int = 0


@dataclass
class _Reader:
    """One document's nodes → values and lines."""

    file: str
    findings: Findings
    budget: _Budget
    lines: dict[Path, int] = field(default_factory=dict)

    def value(self, node: Node, path: Path) -> Any:
        self.budget.left -= 1
        self.budget.depth += 1
        if self.budget.left < 0:
            raise _BadYaml(node, f"aliases unfold to more than {MAX_NODES} values", "Write them out.", path)
        if self.budget.depth > MAX_DEPTH:
            raise _BadYaml(node, "an alias contains itself", "Write the value out.")
        if node.tag not in _TAGS:
            raise _BadYaml(node, f"the tag {quoted(node.tag)} is not supported", "Remove the tag.", path)
        self.lines.setdefault(path, node.start_mark.line + 1)
        value = self._content(node, path)
        self.budget.depth -= 1
        return value

    def _content(self, node: Node, path: Path) -> Any:
        if isinstance(node, MappingNode):
            return {**self._merged(node, path), **self._own(node, path)}
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        return _scalar(cast("ScalarNode", node), path)

    def _own(self, node: MappingNode, path: Path) -> dict[str, Any]:
        own: dict[str, Any] = {}
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            if not isinstance(key_node, ScalarNode):
                raise _BadYaml(key_node, "a key is not text", "Write each key as a plain word.", path)
            line = key_node.start_mark.line + 1
            key = _text(key_node, path)
            here = (*path, key)
            if key in own:
                message = f"the key stands twice; first on line {first_lines[key]}"
                self.findings.error(self.file, line, key_text(here), message, "Remove one of the two.")
                continue
            first_lines[key] = self.lines[here] = line
            own[key] = self.value(value_node, here)
        return own

    def _merged(self, node: MappingNode, path: Path) -> dict[str, Any]:
        """`<<: *base`: the base's keys, which the mapping's own ones override; of several bases the first wins."""
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag != _MERGE:
                continue
            for base in value_node.value if isinstance(value_node, SequenceNode) else [value_node]:
                if not isinstance(base, MappingNode):
                    raise _BadYaml(value_node, "only a mapping can be merged with <<", "Write <<: *anchor.", path)
                merged = {**self.value(base, path), **merged}
        return merged


def _text(node: ScalarNode, path: Path) -> str:
    text = str(node.value)
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise _BadYaml(node, "it holds a character that no program can be given", "Remove the escape.", path)
    return text


def _scalar(node: ScalarNode, path: Path) -> Any:
    if node.tag.endswith(":str"):
        return _text(node, path)
    if len(node.value) > _MAX_NUMBER:
        raise _BadYaml(node, f"{quoted(node.value)} is too long for a number", "Quote it if it is meant as text.", path)
    try:
        return SafeConstructor().construct_object(node)
    except (ValueError, KeyError, OverflowError, IndexError) as error:
        fix = "Quote it if it is meant as text."
        raise _BadYaml(node, f"{quoted(node.value)} cannot be read as the number it looks like", fix, path) from error


def _syntax_error(file: str, error: yaml.MarkedYAMLError, findings: Findings) -> None:
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
    findings.error(file, line, "", f"not valid YAML: {problem}", fix)
