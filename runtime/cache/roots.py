"""One cache root of a replica: private to it, for one fingerprint, used again only after a proven start.

What a start left that was killed while it compiled may be half written; it is thrown away, not trusted. A proof counts
for one boot of the machine: files are not synced to disk, and a power cut may have torn what was whole before.
"""

import contextlib
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
    """The directory `path` for the fingerprint `key`; an empty key is never proven."""

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key

    def is_proven(self) -> bool:
        """Whether a start of this very fingerprint was proven with it, since the machine began."""
        try:
            told = json.loads((self.path / PROVEN).read_text())
        except (OSError, ValueError):
            return False
        return bool(self.key) and isinstance(told, dict) and told == {"key": self.key, "boot": _boot()}

    def prove(self) -> None:
        """Its start has answered the golden prompt; the oldest other roots beside it go. Raises OSError."""
        if not self.key:
            return
        draft = self.path / f"{PROVEN}.draft"
        draft.write_text(json.dumps({"key": self.key, "boot": _boot()}))
        draft.replace(self.path / PROVEN)
        for old in sorted(self._others(), key=_proven_at, reverse=True)[KEPT - 1 :]:
            shutil.rmtree(old, ignore_errors=True)

    def unprove(self) -> None:
        """It is not used again."""
        with contextlib.suppress(OSError):
            (self.path / PROVEN).unlink(missing_ok=True)

    def make(self) -> None:
        """Have the directory. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def remove(self) -> None:
        """Throw it away. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path)

    def empty(self) -> None:
        """Have the directory, with nothing in it. Raises OSError."""
        self.remove()
        self.make()

    def artifacts(self) -> frozenset[str]:
        """The compiled things in it."""
        files = (Path(folder, name) for folder, _, names in os.walk(self.path) for name in names)
        return artifacts(str(file.relative_to(self.path)) for file in files)

    def _others(self) -> list[Path]:
        return [path for path in self.path.parent.iterdir() if path.is_dir() and path != self.path]


def _proven_at(path: Path) -> float:
    try:
        return (path / PROVEN).stat().st_mtime
    except OSError:
        return 0.0


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
