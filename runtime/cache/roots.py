"""One cache root of a replica: private to it, for one fingerprint, used again only after a proven start.

A start takes the proof away and gives it back with its own golden prompt. So what a start left that was killed while it
compiled, and may be half written, is thrown away and not trusted, also where an earlier start was proven with it. A
proof counts for one boot of the machine: files are not synced to disk, and a power cut may have torn what was whole.
"""

import json
import os
import shutil
from pathlib import Path

from runtime.cache.verdict import artifacts

PROVEN = "pilotlight-proven.json"
KEPT = 3
"""Proven roots kept for a replica, the newest: an argument that was changed and changed back compiles nothing."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Root:
    """The directory `path` for the fingerprint `key`; an empty key is never proven. Every method blocks."""

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key

    def is_proven(self) -> bool:
        """Whether a start of this very fingerprint was proven with it, since the machine began."""
        return bool(self.key) and _proof(self.path) == self.key

    def take(self) -> bool:
        """Have the directory for a start: as an earlier one proved it (True), else empty. Raises OSError."""
        if self.is_proven():
            self.unprove()
            return True
        self.remove()
        self.path.mkdir(parents=True, mode=0o700)
        return False

    def prove(self) -> None:
        """Its start has answered the golden prompt. Raises OSError."""
        if self.key:
            draft = self.path / f"{PROVEN}.draft"
            draft.write_text(json.dumps({"key": self.key, "boot": _boot()}))
            draft.replace(self.path / PROVEN)

    def remove_others(self) -> None:
        """Of the other roots beside it, leave the newest that are proven; what cannot be removed stays."""
        others = [path for path in self.path.parent.iterdir() if path.is_dir() and path != self.path]
        proven = sorted((path for path in others if _proof(path)), key=_proven_at, reverse=True)[: KEPT - 1]
        for path in others:
            if path not in proven:
                shutil.rmtree(path, ignore_errors=True)

    def unprove(self) -> None:
        """It is not used again. Raises OSError."""
        (self.path / PROVEN).unlink(missing_ok=True)

    def remove(self) -> None:
        """Throw it away. Raises OSError."""
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        else:
            self.path.unlink(missing_ok=True)

    def artifacts(self) -> frozenset[str]:
        """The compiled things in it."""
        files = (Path(folder, name) for folder, _, names in os.walk(self.path) for name in names)
        return artifacts(str(file.relative_to(self.path)) for file in files)


def _proof(path: Path) -> str | None:
    """The key that the root at `path` was proven for since the machine began; None: for none."""
    try:
        told = json.loads((path / PROVEN).read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(told, dict) or told.get("boot") != _boot() or not isinstance(told.get("key"), str):
        return None
    return str(told["key"])


def _proven_at(path: Path) -> float:
    try:
        return (path / PROVEN).stat().st_mtime
    except OSError:
        return 0.0


def _boot() -> str:
    """Of this boot; one that cannot be told is like no other."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return f"unknown, process {os.getpid()}"
