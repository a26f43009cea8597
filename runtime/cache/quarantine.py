"""Bundles that this host does not restore again for a while, because an engine ended soon after one was restored.

One JSON file, written whole. It is a precaution, not a truth: lost or damaged it counts as empty, and that is said.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from runtime.cache.manifest import HEX_DIGEST
from runtime.cache.staging import draft_file, publish_file, sweep

EXPIRY = timedelta(days=14)
"""Longer than a bundle that nobody rebuilt is likely to be asked for; then it may show once more what it does."""

MOST = 256
"""Records kept; the oldest go first. A host sees some bundles a day."""

_FILE_BYTES = 2**20
_WHY_CHARS = 500


class Quarantined(BaseModel):
    """One digest, why it was put aside, and when."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    digest: Annotated[str, Field(pattern=HEX_DIGEST)]
    why: str
    at: AwareDatetime


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    quarantined: tuple[Quarantined, ...]


@dataclass(frozen=True, slots=True)
class _Read:
    rows: tuple[Quarantined, ...]
    damage: str | None


class Quarantine:
    """The record of one host. Every call reads the file anew, so several processes of a host see the same."""

    def __init__(self, file: Path, *, expiry: timedelta = EXPIRY, most: int = MOST) -> None:
        self._file, self._expiry, self._most = file, expiry, most

    @property
    def damage(self) -> str | None:
        """Why the file counts as empty, in a sentence for the log; None while it is well or absent."""
        return self._read().damage

    def add(self, digest: str, why: str, at: datetime) -> None:
        """Put a bundle aside from `at` on. Raises OSError where the file cannot be written."""
        row = Quarantined(digest=digest, why=why[:_WHY_CHARS], at=at)
        with self._alone():
            others = [other for other in self._read().rows if other.digest != digest]
            rows = sorted([*others, row], key=lambda one: one.at)
            self._write([one for one in rows if not self._expired(one, at)][-self._most :])

    def holds(self, digest: str, now: datetime) -> Quarantined | None:
        """The record of this bundle, None where it may be restored."""
        return next((row for row in self.rows(now) if row.digest == digest), None)

    def rows(self, now: datetime) -> tuple[Quarantined, ...]:
        """Every record that holds now, oldest first."""
        return tuple(row for row in self._read().rows if not self._expired(row, now))

    def release(self, digest: str) -> bool:
        """Let a bundle be restored again; whether it was held. Raises OSError where the file cannot be written."""
        with self._alone():
            rows = self._read().rows
            kept = [row for row in rows if row.digest != digest]
            if len(kept) == len(rows):
                return False
            self._write(kept)
        return True

    def _expired(self, row: Quarantined, now: datetime) -> bool:
        """Also a record from the future counts from now on no longer than one from now: clocks are set."""
        return not now - self._expiry < row.at <= now + self._expiry

    def _read(self) -> _Read:
        try:
            with self._file.open("rb") as file:
                data = file.read(_FILE_BYTES + 1)
        except FileNotFoundError:
            return _Read((), None)
        except OSError as error:
            return _Read((), f"{self._file} cannot be read ({error.strerror}): no bundle counts as quarantined")
        try:
            if len(data) > _FILE_BYTES:
                raise ValueError(f"it has more than {_FILE_BYTES} bytes")
            return _Read(_Stored.model_validate_json(data).quarantined, None)
        except (ValidationError, ValueError):
            return _Read(
                (), f"{self._file} is damaged: no bundle counts as quarantined; it is written anew when needed"
            )

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One writer at a time; the lock is the directory's and ends with the process."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _write(self, rows: list[Quarantined]) -> None:
        sweep(self._file.parent)
        with draft_file(self._file) as draft:
            os.write(draft.fd, _Stored(quarantined=tuple(rows)).model_dump_json(indent=1).encode())
            publish_file(draft, self._file)
