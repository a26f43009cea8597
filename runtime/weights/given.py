"""The digests that came with a model: by which lists, and what each says of a file.

Known are our own list, `sha256sum` lists (also BSD style, also one bare digest beside a file), and what the Hugging
Face hub leaves behind: in its cache a blob's name is its sha256, in a download directory the file's metadata holds it.
A list that cannot be read is an error, never "no digest given".
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

LIST_NAME = "pilotlight-digests.json"
"""Our list of every file. `pilotlight weights prepare` writes it last: where it stands, the directory is complete."""

LIST_FORMAT = "pilotlight-digests/1"
_SUM_LISTS = re.compile(r"(sha256sums?(\.txt)?|checksums?\.sha256(\.txt)?|.+\.sha256(sum)?)", re.IGNORECASE)
_GNU = re.compile(r"(\\?)([0-9a-fA-F]{64}) [ *](.+)")
_BSD = re.compile(r"SHA256 ?\((.+)\) ?= ?([0-9a-fA-F]{64})")
_BARE = re.compile(r"[0-9a-fA-F]{64}")
_HEX = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES = 64 * 2**20
"""A list longer than this is none: 100 bytes for each of half a million files."""


class BadListError(ValueError):
    """A list of digests cannot be read; `str()` says where in it and why. `path` is the list."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(what)
        self.path = path


@dataclass(frozen=True, slots=True)
class Given:
    """What one list says of one file. `source` names the list, for messages."""

    sha256: str
    size_bytes: int | None
    source: str


@dataclass(frozen=True, slots=True)
class GivenDigests:
    """All lists together: `files` by POSIX path relative to the model directory.

    `ours`: LIST_NAME is among them, so a file that it does not name does not belong to the model.
    """

    files: Mapping[str, tuple[Given, ...]]
    ours: bool


def given_digests(directory: Path) -> GivenDigests:
    """Read every list in `directory`. Raises BadListError, OSError."""
    files: dict[str, list[Given]] = {}
    ours = directory / LIST_NAME
    found = [*(_our_list(ours) if ours.is_file() else ()), *_sum_lists(directory), *_hub(directory)]
    for name, given in found:
        files.setdefault(name, []).append(given)
    return GivenDigests({name: tuple(each) for name, each in files.items()}, ours.is_file())


def is_list(name: str) -> bool:
    """Whether a file of this name at the top of a model directory says something about it and is no part of it."""
    return name == LIST_NAME or _SUM_LISTS.fullmatch(name) is not None


def write_list(directory: Path, files: Mapping[str, tuple[str, int]], notes: Mapping[str, object]) -> None:
    """Write our list, atomically, from name → (sha256, bytes). `notes` say how the files came to be, for people."""
    entries = {name: {"sha256": digest, "size_bytes": size} for name, (digest, size) in sorted(files.items())}
    text = json.dumps({"format": LIST_FORMAT, **notes, "files": entries}, indent=1)
    draft = directory / f".{LIST_NAME}.{os.getpid()}"
    try:
        draft.write_text(text + "\n", encoding="utf-8")
        draft.replace(directory / LIST_NAME)
    finally:
        draft.unlink(missing_ok=True)


def _our_list(path: Path) -> Iterator[tuple[str, Given]]:
    try:
        whole = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise BadListError(path, f"is not JSON ({error})") from error
    files = whole.get("files") if isinstance(whole, dict) else None
    if not isinstance(files, dict) or not files or whole.get("format") != LIST_FORMAT:
        raise BadListError(path, f"is no list of the format {LIST_FORMAT}")
    for name, entry in files.items():
        fields = entry if isinstance(entry, dict) else {}
        digest, size = fields.get("sha256"), fields.get("size_bytes")
        if not isinstance(digest, str) or not _HEX.fullmatch(digest) or type(size) is not int or size < 0:
            raise BadListError(path, f"has no sha256 and size_bytes for {name!r}")
        yield _inside(path, name), Given(digest, size, path.name)


def _sum_lists(directory: Path) -> Iterator[tuple[str, Given]]:
    for path in sorted(directory.iterdir()):
        if path.name == LIST_NAME or path.name.startswith(".") or not is_list(path.name) or not path.is_file():
            continue
        for number, line in enumerate(_text(path).splitlines(), start=1):
            if line.strip() and not line.startswith("#"):
                yield _sum_line(path, number, line.rstrip())


def _sum_line(path: Path, number: int, line: str) -> tuple[str, Given]:
    if _BARE.fullmatch(line) and path.suffix.lower() in {".sha256", ".sha256sum"}:
        return _inside(path, path.stem), Given(line.lower(), None, path.name)
    if found := _GNU.fullmatch(line):
        # sha256sum puts a backslash first where it wrote a newline or backslash of the name as an escape.
        name = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], found[3]) if found[1] else found[3]
        return _inside(path, name), Given(found[2].lower(), None, path.name)
    if found := _BSD.fullmatch(line):
        return _inside(path, found[1]), Given(found[2].lower(), None, path.name)
    raise BadListError(path, f"has no sha256 and file name in line {number}")


def _hub(directory: Path) -> Iterator[tuple[str, Given]]:
    """A file of the hub's cache links to a blob; a download directory holds `name.metadata` (revision, etag, time)."""
    for path in directory.iterdir():
        if path.is_symlink() and (target := path.readlink()).parent.name == "blobs" and _HEX.fullmatch(target.name):
            yield path.name, Given(target.name, None, f"the blob's name {target.name[:12]}…")
    notes = directory / ".cache" / "huggingface" / "download"
    for note in sorted(notes.glob("*.metadata")):
        name, lines = note.name.removesuffix(".metadata"), _text(note).splitlines()
        if len(lines) < 3 or not _HEX.fullmatch(lines[1]) or not (directory / name).is_file():
            continue
        # As the hub's own client reads it: a file written after that time is no longer the one that was downloaded.
        if (directory / name).stat().st_mtime <= _number(lines[2]) + 1:
            yield name, Given(lines[1], None, note.relative_to(directory).as_posix())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _inside(path: Path, name: str) -> str:
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts or not relative.parts or "\0" in name:
        raise BadListError(path, f"names {name!r}, which is no file of this directory")
    return relative.as_posix()


def _text(path: Path) -> str:
    if path.stat().st_size > _MOST_BYTES:
        raise BadListError(path, f"is longer than {_MOST_BYTES // 2**20} MiB")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadListError(path, f"is not text ({error.reason})") from error
