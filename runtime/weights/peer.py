"""Where ModelExpress really took the weights from: it falls back to disk by itself, and then says nothing louder.

Told from its log lines: `Trying strategy: NAME` and `Strategy NAME failed, trying next` (or `raised unexpected
error, trying next`); a strategy that is not available is not tried (modelexpress/load_strategy/__init__.py, 0.7).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

PEER_STRATEGY = "rdma"
_TRYING = re.compile(r"\[Worker (\d+)\] Trying strategy: (\S+)")
_FAILED = re.compile(r"\[Worker (\d+)\] Strategy '?([\w-]+)'? (?:failed|raised unexpected error), trying next: (.*)")


@dataclass(frozen=True, slots=True)
class PeerOutcome:
    """`used` by rank: the strategy that was tried last and not seen to fail. `failures` in the order they were told.

    `fell_back`: how many ranks did not get their weights from a peer.
    """

    used: dict[int, str]
    failures: tuple[str, ...]

    @property
    def fell_back(self) -> int:
        """Ranks whose weights came from elsewhere."""
        return sum(strategy != PEER_STRATEGY for strategy in self.used.values())

    def __str__(self) -> str:
        if not self.used:
            return "ModelExpress did not say where the weights came from"
        ways = ", ".join(sorted(set(self.used.values())))
        because = f" ({self.failures[0]})" if self.failures else ""
        return f"{len(self.used) - self.fell_back} of {len(self.used)} ranks from a peer; strategies {ways}{because}"


def read_outcome(lines: Iterable[str]) -> PeerOutcome:
    """Read the engine's log lines of one start."""
    used: dict[int, str] = {}
    failures: list[str] = []
    for line in lines:
        if found := _TRYING.search(line):
            used[int(found[1])] = found[2]
        elif found := _FAILED.search(line):
            used.pop(int(found[1]), None)
            failures.append(f"{found[2]}: {found[3].strip()}"[:200])
    return PeerOutcome(used, tuple(failures))
