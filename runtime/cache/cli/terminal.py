"""What people see: sizes, ages, a line that shows how far a transfer is, and tables."""

import sys
import time
from collections.abc import Sequence
from datetime import datetime

from runtime.cache.cli.failures import visible

_SHOW_EVERY_S = 0.1


def size(count: int | None) -> str:
    """Bytes as people read them."""
    if count is None:
        return "–"
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"


def age(at: datetime, now: datetime) -> str:
    """How long ago, in its largest unit; an instant of a clock that is ahead of ours is `0s`."""
    left = max(0.0, (now - at).total_seconds())
    for seconds, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if left >= seconds:
            return f"{left / seconds:.0f}{unit}"
    return f"{left:.0f}s"


def seconds(value: float | None) -> str:
    """Seconds with one digit."""
    return "–" if value is None else f"{value:.1f} s"


class Line:
    """One line on stderr that is drawn again and again, on a terminal only. As a context it is gone at its end."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._at = 0.0

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    @property
    def drawn(self) -> bool:
        """Whether anybody sees it."""
        return self._shown

    def show(self, text: str) -> None:
        """Draw it as `text`."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{visible(text)[:160]}")
            sys.stderr.flush()

    def bytes(self, what: str, done: int, total: int) -> None:
        """How far something is; drawn some times a second."""
        if self._shown and time.monotonic() - self._at > _SHOW_EVERY_S:
            self._at = time.monotonic()
            self.show(f"{what}: {size(done)} of {size(total)}")

    def clear(self) -> None:
        """Take it away."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width, two spaces apart: as easily read by `awk` as by people."""
    shown = [[visible(cell).replace("\n", " ") for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
