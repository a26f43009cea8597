"""Bytes of a YAML file → plain values that know their lines.

Bounded: no input makes it raise, recurse deeply or grow without end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from activator_ext.adapters.local.composer import MAX_DEPTH, MAX_NODES, PLAIN, BadYaml, compose
from activator_ext.adapters.local.encoding import decoded
from activator_ext.adapters.local.findings import Findings, quoted
from activator_ext.adapters.local.scalars import as_key, plain
from activator_ext.adapters.local.syntax import report

MAX_BYTES = 4 * 2**20
"""Largest file. A thousand services with their runtimes are about 1 MiB."""
MAX_TEXT = 4 * MAX_BYTES
"""Most characters of all values of one file together, those that an alias repeats counted each time."""
_MAX_KEY = 80

Step = str | int
Path = tuple[Step, ...]
Where = tuple[str, int, str]

_YAML = "tag:yaml.org,2002:"
_STR = f"{_YAML}str"
_TYPES: dict[str, tuple[type, ...]] = {
    f"{_YAML}int": (int,),
    f"{_YAML}float": (int, float),
    f"{_YAML}bool": (bool,),
    f"{_YAML}null": (type(None),),
}
_TAGS = {PLAIN, _STR, f"{_YAML}map", f"{_YAML}seq", *_TYPES}


@dataclass(frozen=True)
class Document:
    """One YAML document that is a mapping.

    `lines`: the line (from 1) of each key and item by its path. `words`: what is written where the value is no text.
    """

    file: str
    data: dict[str, Any]
    lines: Mapping[Path, int]
    words: Mapping[Path, str]
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

    def word(self, path: Path) -> str | None:
        """What is written at `path`, where YAML reads it as a number, true, false or null; None for text."""
        return self.words.get(self.root + path)

    def at(self, path: Path) -> "Document":
        """The mapping at `path` as a document of its own (an item of a `List`)."""
        data: Any = self.data
        for step in path:
            data = data[step]
        return Document(self.file, data, self.lines, self.words, self.root + path)


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
    text = decoded(file, content, findings)
    documents: list[Document] = []
    try:
        documents.extend(_documents(file, text, findings))
    except (BadYaml, yaml.reader.ReaderError, yaml.MarkedYAMLError) as error:
        report(file, text, error, findings)
    return documents


def _documents(file: str, text: str, findings: Findings) -> Iterator[Document]:
    budget = _Budget(MAX_NODES, MAX_TEXT)
    for node in compose(text):
        reader = _Reader(file, findings, budget)
        data = reader.value(node, ())
        if data is None:
            continue
        if not isinstance(data, dict):
            fix = "Write apiVersion, kind, metadata and spec at the left edge."
            findings.error(file, node.start_mark.line + 1, "", "the document is not an object", fix)
            continue
        yield Document(file, data, reader.lines, reader.words)


@dataclass
class _Budget:
    nodes: int
    text: int
    depth: int = 0


@dataclass
class _Reader:
    """One document's nodes → values, lines and words."""

    file: str
    findings: Findings
    budget: _Budget
    lines: dict[Path, int] = field(default_factory=dict)
    words: dict[Path, str] = field(default_factory=dict)

    def value(self, node: Node, path: Path) -> Any:
        self._spend(node, path)
        if node.tag not in _TAGS:
            raise _bad(node, f"the tag {quoted(node.tag)} is not supported", "Remove the tag.", path)
        self.lines.setdefault(path, node.start_mark.line + 1)
        self.budget.depth += 1
        value = self._content(node, path)
        self.budget.depth -= 1
        return value

    def _spend(self, node: Node, path: Path) -> None:
        self.budget.nodes -= 1
        if self.budget.nodes < 0:
            raise _bad(node, f"aliases unfold to more than {MAX_NODES} values", "Write them out.", path)
        if self.budget.depth >= MAX_DEPTH:
            raise _bad(node, "an alias contains itself", "Write the value out.")

    def _spend_text(self, node: ScalarNode, path: Path) -> None:
        self.budget.text -= len(node.value)
        if self.budget.text < 0:
            raise _bad(node, f"aliases unfold to more than {MAX_TEXT} characters", "Write them out.", path)

    def _content(self, node: Node, path: Path) -> Any:
        if isinstance(node, MappingNode):
            return {**self._merged(node, path), **self._own(node, path)}
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        word = cast("ScalarNode", node)
        self._spend_text(word, path)
        value = _scalar(word, path)
        if isinstance(value, str):
            self.words.pop(path, None)  # of a base that this value overrides
        else:
            self.words[path] = str(word.value)
        return value

    def _own(self, node: MappingNode, path: Path) -> dict[str, Any]:
        own: dict[str, Any] = {}
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if _is_merge(key_node):
                continue
            line = key_node.start_mark.line + 1
            key = self._key(key_node, path)
            here = (*path, key)
            if key in own:
                message = f"the key stands twice; first on line {first_lines[key]}"
                self.findings.error(self.file, line, key_text(here), message, "Remove one of the two.")
                continue
            first_lines[key] = self.lines[here] = line
            own[key] = self.value(value_node, here)
        return own

    def _key(self, node: Node, path: Path) -> str:
        """A key as a cluster is sent it; `on: x` is sent as "true", which nobody means."""
        if not isinstance(node, ScalarNode):
            raise _bad(node, "a key is not text", "Write each key as a plain word.", path)
        self._spend_text(node, path)
        key = as_key(_scalar(node, path))
        if key is None:
            raise _bad(node, f"the key {quoted(node.value)} is read as null", "Write it in quotes.", path)
        if key != node.value:
            where = (self.file, node.start_mark.line + 1, key_text((*path, node.value)))
            self.findings.warning(*where, f"the key is read as {key}", "Write it in quotes if it is meant as text.")
        return key

    def _merged(self, node: MappingNode, path: Path) -> dict[str, Any]:
        """`<<: *base`: the base's keys, which the mapping's own ones override; of several bases the first wins."""
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not _is_merge(key_node):
                continue
            bases = value_node.value if isinstance(value_node, SequenceNode) else [value_node]
            for base in reversed(bases):
                if not isinstance(base, MappingNode):
                    raise _bad(value_node, "only a mapping can be merged with <<", "Write <<: *anchor.", path)
                merged |= self.value(base, path)
        return merged


def _is_merge(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == PLAIN and node.value == "<<"


def _bad(node: Node, message: str, fix: str, path: Path = ()) -> BadYaml:
    return BadYaml(node.start_mark.line + 1, message, fix, key_text(path))


def _scalar(node: ScalarNode, path: Path) -> Any:
    text: str = node.value
    if node.tag not in _TYPES and (node.tag != PLAIN or node.style is not None):
        return _text(node, path)
    try:
        value = plain(text)
    except ValueError as error:
        message, fix = error.args
        raise _bad(node, message, fix, path) from error
    if node.tag in _TYPES and type(value) not in _TYPES[node.tag]:
        message = f"{quoted(text)} is not of the type that its tag says"
        raise _bad(node, message, "Remove the tag, or correct the value.", path)
    return _text(node, path) if isinstance(value, str) else value


def _text(node: ScalarNode, path: Path) -> str:
    text: str = node.value
    if "\0" in text or (not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)):
        raise _bad(node, "it holds a character that no program can be given", "Remove the escape.", path)
    return text
