"""The user's paths → YAML files and their bytes; what cannot be read becomes a finding.

Only regular files are opened: a pipe would make its reader wait for ever, and opening a device can act on it.
"""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from activator_ext.adapters.local.documents import MAX_BYTES
from activator_ext.adapters.local.findings import Findings

STDIN = "-"
"""Stands for what was given instead of a file."""
_SUFFIXES = (".yaml", ".yml")
_READS = 3
"""How often a file that changes while it is read is read again."""
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def yaml_files(paths: Sequence[Path], findings: Findings) -> list[Path]:
    """The files that `paths` mean, each once: a directory's *.yaml and *.yml, sorted, not those of its directories."""
    files: dict[Path, Path] = {}
    for path in paths:
        try:
            for file in _meant(path, findings):
                files.setdefault(file.resolve(), file)
        except (OSError, ValueError, RuntimeError) as error:
            findings.error(str(path), 1, "", *_said(path, error))
    return list(files.values())


def content(file: Path, findings: Findings) -> bytes:
    """What the file holds, at most one byte more than is allowed; nothing, with an error, if it cannot be read."""
    try:
        for _ in range(_READS):
            other = _other_kind(file.stat())
            if other is not None:
                fix = "Remove it from the directory, or check its link."
                findings.error(str(file), 1, "", f"it is {other}, not a file", fix)
                return b""
            read = _read_unchanged(file)
            if read is not None:
                return read
        findings.error(str(file), 1, "", "it changes while it is read", "Check again when it is written.")
    except OSError as error:
        findings.error(str(file), 1, "", *_said(file, error))
    return b""


def _meant(path: Path, findings: Findings) -> list[Path]:
    status = path.stat()
    other = _other_kind(status)
    if other is None:
        return [path]
    if not stat.S_ISDIR(status.st_mode):
        findings.error(str(path), 1, "", f"it is {other}, not a file", "Name a file or a directory.")
        return []
    found = sorted(p for p in path.iterdir() if p.suffix in _SUFFIXES and p.name[0] != ".")
    if not found:
        findings.error(str(path), 1, "", "the directory holds no *.yaml or *.yml", "Name another one.")
    return found


def _other_kind(status: os.stat_result) -> str | None:
    """What it is if it is no regular file."""
    if stat.S_ISREG(status.st_mode):
        return None
    return next((name for is_kind, name in _KINDS if is_kind(status.st_mode)), "something else")


def _read_unchanged(file: Path) -> bytes | None:
    """The bytes, None if the file was written or replaced meanwhile: half of an edit would be taken for the whole."""
    # Not blocking: it may have become a pipe since it was looked at.
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        before = os.fstat(descriptor)
        read = stream.read(MAX_BYTES + 1) if stat.S_ISREG(before.st_mode) else None
    return read if _look(before) == _look(file.stat()) else None


def _look(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _said(path: Path, error: Exception) -> tuple[str, str]:
    """Message and fix."""
    if str(path) == STDIN:
        return "standard input is read by `pilotlight check` only", "Name a file or a directory."
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.ENOENT, errno.ENOTDIR):
        if path.is_symlink():
            return f"it is a link to {os.readlink(path)}, which does not exist", "Correct or remove the link."
        return "there is no such file or directory", "Check the path."
    if number == errno.ELOOP:
        return "it is a link that leads back to itself", "Correct or remove the link."
    why = error.strerror if isinstance(error, OSError) else str(error)
    return f"it cannot be read ({why})", "Check the path and its rights."
