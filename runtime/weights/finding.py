"""What is wrong, or slower than need be, with a model, a place or a machine, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Level = Literal["error", "warning", "note"]
"""`error`: a start would fail. `warning`: it costs time or memory at each start. `note`: worth knowing."""


class Code(StrEnum):
    """The closed list of findings (docs/concepts/weights.md says of each what it means)."""

    INCOMPLETE = "incomplete"
    PICKLE_ONLY = "pickle-only"
    NO_DIGESTS = "no-digests"
    OTHER_DTYPE = "other-dtype"
    ONE_LARGE_SHARD = "one-large-shard"
    UNEVEN_SHARDS = "uneven-shards"
    DUPLICATE_WEIGHTS = "duplicate-weights"
    HOST_MEMORY = "host-memory"
    PAGE_CACHE = "page-cache"
    SHARED_MEMORY = "shared-memory"
    DISK_SPACE = "disk-space"
    FUSE = "fuse"
    NETWORK_FILES = "network-files"
    ROOT_DISK = "root-disk"
    IN_MEMORY = "in-memory"
    FAR_NUMA = "far-numa"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `message` names the place and its numbers, `fix` what to do."""

    code: Code
    level: Level
    message: str
    fix: str

    def __str__(self) -> str:
        return f"{self.level}: {self.message}: {self.fix}"


def gib(size_bytes: float) -> str:
    """A size for people: `1.1 GiB`, `870 MiB`, `12 KiB`."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size_bytes >= unit:
            value = size_bytes / unit
            return f"{value:.1f} {name}" if value < 100 else f"{value:.0f} {name}"
    return f"{size_bytes:.0f} B"
