"""Bytes → text: only UTF-8 is read, and what else a file is, is named."""

import codecs

from activator_ext.adapters.local.findings import Findings

_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # before UTF-16, with whose mark it begins
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_BOM = "\ufeff"
_SAVE = "Save the file as UTF-8."
_BINARY_LOOK = 1024
"""How many bytes tell a binary file by the NUL bytes among them."""


def decoded(file: str, content: bytes, findings: Findings) -> str:
    """The text, without its byte order mark; empty, with an error, if it is not UTF-8."""
    for mark, name in _MARKS.items():
        if content.startswith(mark):
            findings.error(file, 1, "", f"the file is {name}", _SAVE)
            return ""
    if b"\0" in content[:_BINARY_LOOK]:
        findings.error(file, 1, "", "the file holds NUL bytes: it is UTF-16 or no text at all", _SAVE)
        return ""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        findings.error(file, line, "", f"byte {error.start} is not UTF-8", _SAVE)
        return ""
    inside = text.find(f"\n{_BOM}")
    if inside >= 0:
        line = text.count("\n", 0, inside) + 2
        findings.error(file, line, "", "a byte order mark (U+FEFF) stands inside the file", "Remove it.")
        return ""
    return text
