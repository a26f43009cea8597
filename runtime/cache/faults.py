"""Why a bundle was not made or not taken: one cause each, and a message that names file, place and fix."""

from enum import StrEnum
from pathlib import Path


class BundleCause(StrEnum):
    """The closed list of what can be wrong (docs/concepts/bundle.md says of each what follows)."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    UNKNOWN_FORMAT = "unknown-format"
    FOREIGN = "foreign"
    UNSIGNED = "unsigned"
    UNTRUSTED = "untrusted"
    BAD_SIGNATURE = "bad-signature"
    UNSAFE_PATH = "unsafe-path"
    LINK = "link"
    SPECIAL_FILE = "special-file"
    TOO_LARGE = "too-large"
    NO_SPACE = "no-space"
    OCCUPIED = "occupied"
    EMPTY = "empty"
    CHANGED = "changed"
    BAD_KEY = "bad-key"
    BAD_POLICY = "bad-policy"


class BundleFault(Exception):
    """A bundle, or what one is made of, was refused. `str()` is the whole message.

    `file`: what was looked at. `permanent`: the same bytes are refused again, so that asking once more is of no use
    (a full disk or a store that could not be read may do better later).
    """

    def __init__(self, cause: BundleCause, file: Path, what: str, fix: str) -> None:
        super().__init__(f"{file}: {what}: {fix}")
        self.cause = cause
        self.file = file

    @property
    def permanent(self) -> bool:
        """Whether the same file would be refused again."""
        return self.cause not in _PASSING


_PASSING = frozenset(
    {
        BundleCause.MISSING,
        BundleCause.UNREADABLE,
        BundleCause.NO_SPACE,
        BundleCause.OCCUPIED,
        BundleCause.CHANGED,
        BundleCause.EMPTY,
    }
)
