"""YAML as text: what is refused, at which line, and what is read as a Kubernetes API server reads it."""

import pytest

from activator_ext.adapters.local.composer import MAX_DEPTH, MAX_NODES
from activator_ext.adapters.local.documents import MAX_BYTES, MAX_TEXT, Document, parse
from activator_ext.adapters.local.findings import Findings


def read(content: bytes) -> tuple[list[Document], list[str]]:
    findings = Findings()
    documents = parse("f.yaml", content, findings)
    return documents, [str(finding) for finding in findings.sorted()]


BOMB = b"a: &a [x, x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (now, now, b", ".join([b"*%c" % (now - 1)] * 10)) for now in range(ord("b"), ord("j"))
)

REFUSED = {
    "tab as indentation": (
        b"a:\n\tb: 1\n",
        "f.yaml:2: error: not valid YAML: a tab is used for indentation. Indent with spaces.",
    ),
    "not UTF-8": (b"a: 1\nb: \xff\n", "f.yaml:2: error: byte 8 is not UTF-8. Save the file as UTF-8."),
    "UTF-16": ("a: 1".encode("utf-16"), "f.yaml:1: error: the file is UTF-16. Save the file as UTF-8."),
    "UTF-16, big end first": (
        b"\xfe\xff" + "a: 1".encode("utf-16-be"),
        "f.yaml:1: error: the file is UTF-16. Save the file as UTF-8.",
    ),
    "UTF-32": ("a: 1".encode("utf-32"), "f.yaml:1: error: the file is UTF-32. Save the file as UTF-8."),
    "UTF-16 without a mark": (
        "a: 1".encode("utf-16-le"),
        "f.yaml:1: error: the file holds NUL bytes: it is UTF-16 or no text at all. Save the file as UTF-8.",
    ),
    "BOM inside": (
        "a: 1\n---\n\ufeffb: 1\n".encode(),
        "f.yaml:3: error: a byte order mark (U+FEFF) stands inside the file. Remove it.",
    ),
    "merge conflict": (
        b"a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> theirs\n",
        "f.yaml:2: error: a merge conflict is not resolved. Keep one of the two versions and remove the marks.",
    ),
    "template with a directive": (
        b"{{- if .Values.chat }}\na: 1\n{{- end }}\n",
        "f.yaml:1: error: not valid YAML: expected the node content, but found '-'."
        " Quote text that holds {{. If the file is a template, give what it renders to (helm template).",
    ),
    "template as a value": (
        b"a:\n  name: {{ .Release.Name }}\n",
        "f.yaml:2: error: a.name: a key is not text."
        " Quote text that holds {{. If the file is a template, give what it renders to (helm template).",
    ),
    "not a number": (b"a: .nan\n", "f.yaml:1: error: a: '.nan' cannot be sent to a cluster. Write a number."),
    "a tag that the value is not of": (
        b"a: !!int x\n",
        "f.yaml:1: error: a: 'x' is not of the type that its tag says. Remove the tag, or correct the value.",
    ),
    "null as a key": (b"a: {~: 1}\n", "f.yaml:1: error: a: the key '~' is read as null. Write it in quotes."),
    "bomb of one long text": (
        b"a: &a " + b"x" * 100_000 + b"\nb: [" + b"*a, " * 90_000 + b"]\n",
        f"f.yaml:1: error: b[{MAX_TEXT // 100_000 - 1}]: aliases unfold to more than {MAX_TEXT} characters."
        " Write them out.",
    ),
    "control character": (b"a: 1\nb: \x07\n", "f.yaml:2: error: character U+0007 is not allowed. Remove it."),
    "too large": (
        b"#" * (MAX_BYTES + 1),
        "f.yaml:1: error: the file is larger than 4 MiB. Split it into several files.",
    ),
    "bracket left open": (
        b"a: [1, 2\nb: 3\n",
        "f.yaml:2: error: not valid YAML: expected ',' or ']', but got ':'."
        " Correct the YAML here or on the line above.",
    ),
    "unknown alias": (
        b"a: 1\nb: *none\n",
        "f.yaml:2: error: not valid YAML: found undefined alias 'none'. Define it above with &name.",
    ),
    "anchor twice": (
        b"a: &x 1\nb: &x 2\n",
        "f.yaml:2: error: not valid YAML: an anchor of this name stands above."
        " Correct the YAML here or on the line above.",
    ),
    "key twice": (
        b"a:\n  b: 1\n  c: 2\n  b: 3\n",
        "f.yaml:4: error: a.b: the key stands twice; first on line 2. Remove one of the two.",
    ),
    "list as document": (
        b"- a\n",
        "f.yaml:1: error: the document is not an object. Write apiVersion, kind, metadata and spec at the left edge.",
    ),
    "key that is a list": (
        b"a:\n  ? [b]\n  : c\n",
        "f.yaml:2: error: a: a key is not text. Write each key as a plain word.",
    ),
    "tag of Python": (
        b"a: !!python/object/apply:os.system [x]\n",
        "f.yaml:1: error: a: the tag 'tag:yaml.org,2002:python/object/apply:os.system' is not supported."
        " Remove the tag.",
    ),
    "alias that contains itself": (
        b"a: &a\n  b: *a\n",
        "f.yaml:1: error: an alias contains itself. Write the value out.",
    ),
    "merge that contains itself": (
        b"a: &a\n  <<: *a\n",
        "f.yaml:1: error: an alias contains itself. Write the value out.",
    ),
    "bomb of aliases": (
        BOMB,
        f"f.yaml:1: error: e[7][8][8][8][9]: aliases unfold to more than {MAX_NODES} values. Write them out.",
    ),
    "nested deeply": (
        b"[" * (MAX_DEPTH + 2),
        f"f.yaml:1: error: nested more than {MAX_DEPTH} deep. Flatten it; no object of ours is that deep.",
    ),
    "merge of a list": (
        b"a: {<<: [1]}\n",
        "f.yaml:1: error: a: only a mapping can be merged with <<. Write <<: *anchor.",
    ),
    "number without end": (
        b"a: " + b"1" * 5000,
        f"f.yaml:1: error: a: '{'1' * 64}…' is too long for a number. Quote it if it is meant as text.",
    ),
    "escape of NUL": (
        b'a: "x\\0y"\n',
        "f.yaml:1: error: a: it holds a character that no program can be given. Remove the escape.",
    ),
    "escape of half a character": (
        b'a: "\\uD800"\n',
        "f.yaml:1: error: a: it holds a character that no program can be given. Remove the escape.",
    ),
    "escape beyond Unicode": (
        b'a: "\\UFFFFFFFF"\n',
        "f.yaml:1: error: not valid YAML: no such character. Remove it.",
    ),
}


@pytest.mark.parametrize(("content", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(content: bytes, expected: str) -> None:
    _, said = read(content)
    assert said == [expected]


READ = {
    "BOM": ("\ufeffa: 1".encode(), {"a": 1}),
    "CRLF": (b"a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
    "date stays text": (b"a: 2026-01-02", {"a": "2026-01-02"}),
    "equals sign stays text": (b"a: =", {"a": "="}),
    "yes is true, as for kubectl": (b"a: yes", {"a": True}),
    "key is text": (b"1: a\ntrue: b", {"1": "a", "true": "b"}),
    "alias": (b"a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
    "merge, own keys win": (b"a: &x {b: 1, c: 1}\nd: {b: 2, <<: *x}", {"a": {"b": 1, "c": 1}, "d": {"b": 2, "c": 1}}),
    "merge, the first base wins": (
        b"a: &x {k: 1}\nb: &y {k: 2, l: 2}\nc: {<<: [*x, *y]}",
        {"a": {"k": 1}, "b": {"k": 2, "l": 2}, "c": {"k": 1, "l": 2}},
    ),
}


@pytest.mark.parametrize(("content", "expected"), READ.values(), ids=READ.keys())
def test_read(content: bytes, expected: dict[str, object]) -> None:
    documents, said = read(content)
    assert said == []
    assert [document.data for document in documents] == [expected]


def test_lines_count_through_documents_and_empty_ones_are_skipped() -> None:
    documents, said = read(b"---\n# nothing\n---\na: 1\n---\nb:\n  - c: 1\n  - c: 2\n")
    assert said == []
    assert [document.where() for document in documents] == [("f.yaml", 4, ""), ("f.yaml", 6, "")]
    assert documents[1].where(("b", 1, "c")) == ("f.yaml", 8, "b[1].c")


def test_a_path_that_does_not_exist_has_the_line_of_its_parent() -> None:
    (document,), _ = read(b"a:\n  b:\n    c: 1\n")
    assert document.where(("a", "b", "x", 0)) == ("f.yaml", 2, "a.b.x[0]")


def test_documents_above_a_syntax_error_are_kept() -> None:
    documents, said = read(b"a: 1\n---\nb: ]\n")
    assert [document.data for document in documents] == [{"a": 1}]
    assert len(said) == 1
