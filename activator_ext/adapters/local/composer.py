"""YAML text → the nodes of its documents, in bounded time, memory and depth.

PyYAML's pure Python scanner: libyaml's recursion would overflow the C stack. Words keep their text: which value an
unquoted one has is decided in `scalars`.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.nodes import Node

MAX_NODES = 100_000
"""Most values of one file, those that an alias repeats counted each time: what stops a bomb of aliases."""
MAX_DEPTH = 64
"""Deepest nesting. A Kubernetes pod is about 12 deep."""
PLAIN = "tag:pilotlight.dev,2026:plain"
"""Tag of an unquoted word without a tag of its own."""


class BadYaml(Exception):
    """The file cannot be read on from `line`; `key` is the path there, if known."""

    def __init__(self, line: int, message: str, fix: str, key: str = "") -> None:
        """As a finding has them."""
        super().__init__(message)
        self.line, self.message, self.fix, self.key = line, message, fix, key


def compose(text: str) -> Iterator[Node]:
    """The root of each document. Raises BadYaml and what PyYAML raises (MarkedYAMLError, ReaderError)."""
    loader = _Loader(text)
    while True:
        try:
            node = loader.get_node() if loader.check_node() else None
        except (ValueError, OverflowError) as error:  # an escape such as "\\UFFFFFFFF" beyond Unicode
            raise BadYaml(loader.get_mark().line + 1, "not valid YAML: no such character", "Remove it.") from error
        if node is None:
            return
        yield node


class _Loader(yaml.SafeLoader):
    """Composes nodes and counts them."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0
        self._depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        self._nodes += 1
        self._depth += 1
        if self._nodes > MAX_NODES:
            raise BadYaml(self.get_mark().line + 1, f"more than {MAX_NODES} values in one file", "Split the file.")
        if self._depth > MAX_DEPTH:
            fix = "Flatten it; no object of ours is that deep."
            raise BadYaml(self.get_mark().line + 1, f"nested more than {MAX_DEPTH} deep", fix)
        node: Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def scan_to_next_token(self) -> None:
        """Tabs separate words as in kubectl's YAML, so that JSON with tabs is read; they never indent."""
        super().scan_to_next_token()
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()


_Loader.yaml_implicit_resolvers = {None: [(PLAIN, re.compile(""))]}
