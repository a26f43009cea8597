"""Which relative paths a bundle may hold. Stricter than a file system: nothing that two systems read differently."""

import unicodedata
from collections.abc import Iterable
from pathlib import Path

from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.layout import part_of

COMPONENT_BYTES = 255
"""NAME_MAX of every file system in use."""

PATH_BYTES = 1024
"""Leaves three quarters of PATH_MAX (4096) to the directory that a bundle is restored to."""

DEPTH = 32
"""Deeper than any cache seen (torch.compile: 7)."""

_FIX = "do not use this bundle; build it again"


def check_path(file: Path, path: str) -> None:
    """Refuse `path`, which `file` names, unless it is a plain relative path inside a known part. Raises BundleFault."""
    if why := _why_unsafe(path):
        raise BundleFault(BundleCause.UNSAFE_PATH, file, f"it names {path!r}, {why}", _FIX)


def check_tree(file: Path, paths: Iterable[str]) -> None:
    """Refuse `paths` (each checked already) where two of them cannot both be files. Raises BundleFault."""
    files: dict[str, str] = {}
    directories: dict[str, str] = {}
    for path in paths:
        folded = path.casefold()
        if folded in files:
            raise _clash(file, files[folded], path, "are one file where letters' case does not count")
        files[folded] = path
        parent = folded
        while (parent := parent.rpartition("/")[0]) and parent not in directories:
            directories[parent] = path
    for folded in files.keys() & directories.keys():
        raise _clash(file, files[folded], directories[folded], "want one name as a file and as a directory")


def _clash(file: Path, one: str, other: str, what: str) -> BundleFault:
    return BundleFault(BundleCause.UNSAFE_PATH, file, f"it names {one!r} and {other!r}, which {what}", _FIX)


def _why_unsafe(path: str) -> str | None:
    if not path or path.startswith("/"):
        return "which is no relative path"
    parts = path.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        return "which leaves its directory or is not in its shortest form"
    if not path.isprintable() or "\\" in path:
        return "which has characters that are no part of a name"
    if unicodedata.normalize("NFC", path) != path:
        return "which is not in Unicode's composed form"
    if len(path.encode()) > PATH_BYTES or any(len(part.encode()) > COMPONENT_BYTES for part in parts):
        return f"which is longer than {COMPONENT_BYTES} bytes a name or {PATH_BYTES} in all"
    if len(parts) > DEPTH:
        return f"which is deeper than {DEPTH} directories"
    if len(parts) < 2 or part_of(path) is None:
        return "which is in none of an engine's caches"
    return None
