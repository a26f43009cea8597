"""What every store of bundles can do, and how it says that it could not.

To a store a bundle is one opaque file with two names: the *key* (the fingerprint, 64 hex digits: what it is for) and
the *digest* (sha256 of its bytes, 64 hex digits: what it is). A bundle never changes; only the pointer "newest for
this key" moves. Keys and digests are checked here once, so that neither can ever name a place outside its store.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from runtime.cache.stores.keep import Keep

HEX64 = re.compile(r"[0-9a-f]{64}", re.ASCII)

Progress = Callable[[int, int], None]
"""Called with (bytes here, bytes in all) as a transfer goes on; from the event loop's thread, at most once a chunk."""


class StoreCause(StrEnum):
    """Why a store could not do what was asked."""

    ABSENT = "absent"  # nothing there by that name, or it was deleted in between
    DENIED = "denied"  # credentials missing, wrong, or without the right
    STALLED = "stalled"  # answers too slowly to wait for
    CORRUPT = "corrupt"  # what is there, or came, is not what its name says
    FULL = "full"  # no space, or a quota, at either end
    UNREACHABLE = "unreachable"  # no connection, a server's fault, or an answer that no store gives


class StoreFault(Exception):
    """A store could not do what was asked. `str()` is a sentence that names the place and the fix.

    `cause`: why. `place`: the store's URL, or the file, without credentials.
    """

    def __init__(self, cause: StoreCause, place: str, what: str, fix: str) -> None:
        super().__init__(f"{place}: {what}; {fix}")
        self.cause = cause
        self.place = place
        self.what = what
        self.fix = fix


class BadStoreUrl(ValueError):
    """A store's URL, or a setting beside it, that can never work. `str()` names the URL and the fix."""


def proven_hex(value: str, what: str) -> str:
    """`value` if it is 64 lower-case hex digits. ValueError, naming `what`, if not."""
    if not HEX64.fullmatch(value):
        raise ValueError(f"{what} must be 64 lower-case hex digits, not {value[:80]!r}")
    return value


@dataclass(frozen=True, slots=True)
class BundleRef:
    """One published bundle. Two are equal if key and digest are; the rest is what the store says of it.

    `size_bytes` ≥ 0. `published_at`: aware UTC, by the clock of who published it. `metadata`: what was given to
    `publish`, strings to strings.
    """

    key: str
    digest: str
    size_bytes: int = field(compare=False)
    published_at: datetime = field(compare=False)
    metadata: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        proven_hex(self.key, "a bundle's key")
        proven_hex(self.digest, "a bundle's digest")
        if self.size_bytes < 0:
            raise ValueError(f"a bundle's size must be ≥ 0 bytes, not {self.size_bytes}")
        if self.published_at.utcoffset() is None:
            raise ValueError("a bundle's publication must be an aware instant")

    @property
    def name(self) -> str:
        """Its file name, the same in every store that has file names."""
        return f"{self.key}-{self.digest}.bundle"

    @property
    def age_order(self) -> tuple[datetime, str]:
        """Sorts the newest last; the digest breaks ties, so that all hosts agree."""
        return self.published_at.astimezone(UTC), self.digest


def newest_of(refs: tuple[BundleRef, ...]) -> BundleRef | None:
    """The newest of `refs`. None: there are none."""
    return max(refs, key=lambda ref: ref.age_order, default=None)


class Store(Protocol):
    """Where bundles are kept. Each method but `close` raises StoreFault and nothing else of the store's own."""

    @property
    def place(self) -> str:
        """The store's URL without credentials, for messages and records."""

    async def newest(self, key: str) -> BundleRef | None:
        """The bundle last published for `key`. None: there is none."""

    async def fetch(self, ref: BundleRef, into: Path, progress: Progress | None = None) -> None:
        """Copy the bundle to the file `into`, which appears whole and of the right digest, or not at all.

        The directory of `into` must exist; a file of that name is replaced. Bounded by the store's Patience.
        """

    async def publish(self, key: str, file: Path, digest: str, metadata: Mapping[str, str] | None = None) -> BundleRef:
        """Put `file` there as the newest bundle of `key`. Publishing what is there already is no fault.

        CORRUPT if `file` has another digest, or the store has other bytes under this name: those are never
        overwritten.
        """

    async def list(self, key: str | None = None) -> tuple[BundleRef, ...]:
        """Every bundle (of `key`), oldest first."""

    async def delete(self, ref: BundleRef) -> None:
        """Remove the bundle. One that is gone already is no fault."""

    async def gc(self, keep: "Keep", now: datetime) -> tuple[BundleRef, ...]:
        """Delete what `keep` does not keep, and what dead publishers left behind; return the bundles deleted."""

    async def close(self) -> None:
        """Let go of connections. The store is not used after it."""
