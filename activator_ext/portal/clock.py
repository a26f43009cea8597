"""Time as the portal is given it: instants for the wire, elapsed seconds for every limit."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """`now` gives aware UTC instants; `elapsed_s` grows steadily, whatever is done to the machine's clock."""

    now: Callable[[], datetime] = _utc_now
    elapsed_s: Callable[[], float] = time.monotonic
