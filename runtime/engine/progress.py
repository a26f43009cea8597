"""Is a start stuck, is a running engine frozen? Pure: instants (seconds of a steady clock) and vitals come in.

A start is stuck when it shows no sign of life for as long as its order allows: no new stage, no log line that says
something, no CPU, no disk. A start that computes in circles shows signs of life; the start timeout ends it.
"""

from dataclasses import dataclass

from runtime.engine.vitals import Vitals

BUSY_SHARE = 0.02
"""CPU seconds per second from which a group is at work. A hung vLLM, all its processes polling, stays under 0.5 %."""
READ_BYTES_PER_S = 64 * 1024
"""Disk or page-cache reads from which a group is at work; polling /proc reads a few kB a second."""
STOPPED_AFTER_S = 10.0
"""A process of a ready engine in state T (SIGSTOP) for so long is not merely being looked at by somebody."""
SILENT_AFTER_S = 30.0
"""A ready engine that gives /health no answer for so long, and works at nothing, is frozen."""
DEAF_AFTER_S = 300.0
"""One that works but gives /health no answer for so long is of no use either; a busy one is late by seconds."""


def at_work(before: Vitals, after: Vitals, elapsed_s: float) -> bool:
    """Whether the group used CPU or disk between two samples worth the name."""
    used_s, read = after.cpu_s - before.cpu_s, after.read_bytes - before.read_bytes
    return used_s >= BUSY_SHARE * elapsed_s or read >= READ_BYTES_PER_S * elapsed_s


class Progress:
    """When a start last showed a sign of life. `patience_s`: how long it may show none."""

    def __init__(self, now_s: float, patience_s: float) -> None:
        self.patience_s = patience_s
        self._alive_s = now_s
        self._sample: tuple[float, Vitals] | None = None

    def sign(self, now_s: float) -> None:
        """A new stage, or a log line that says something."""
        self._alive_s = max(self._alive_s, now_s)

    def sample(self, now_s: float, vitals: Vitals | None) -> None:
        """What the group has used up to now; None, not known, is no reason to end anything."""
        if vitals is None:
            self.sign(now_s)
            return
        if self._sample is not None and now_s > self._sample[0]:
            before_s, before = self._sample
            if at_work(before, vitals, now_s - before_s):
                self.sign(now_s)
        self._sample = (now_s, vitals)

    def quiet_s(self, now_s: float) -> float:
        """Seconds since the last sign of life."""
        return now_s - self._alive_s

    def stuck(self, now_s: float) -> bool:
        """Whether it showed none for as long as it may."""
        return self.quiet_s(now_s) >= self.patience_s

    @property
    def stopped(self) -> int | None:
        """The pid of a process in state T at the last sample."""
        return self._sample[1].stopped if self._sample else None


@dataclass(frozen=True, slots=True)
class Frozen:
    """Why an engine counts as frozen, as words, and for how long it has been so."""

    text: str
    seconds: float


class Pulse:
    """Whether a ready engine is frozen, from probes of /health and samples of its vitals."""

    def __init__(self, now_s: float) -> None:
        self._answered_s = self._running_s = self._worked_s = now_s
        self._sample: tuple[float, Vitals] | None = None

    def beat(self, now_s: float, *, answered: bool, vitals: Vitals | None) -> Frozen | None:
        """Take one probe; why it is frozen, None while it is not known to be.

        Where nothing is known of its processes, the fault may be on our side: the time begins anew.
        """
        if vitals is None:
            self._answered_s = self._running_s = self._worked_s = now_s
            self._sample = None
            return None
        if answered:
            self._answered_s = now_s
        if vitals.stopped is None:
            self._running_s = now_s
        if self._sample is not None and at_work(self._sample[1], vitals, now_s - self._sample[0]):
            self._worked_s = now_s
        self._sample = (now_s, vitals)
        return self._verdict(now_s, vitals)

    def _verdict(self, now_s: float, vitals: Vitals) -> Frozen | None:
        stopped_s, silent_s = now_s - self._running_s, now_s - self._answered_s
        idle_s = min(silent_s, now_s - self._worked_s)
        if stopped_s >= STOPPED_AFTER_S:
            return Frozen(f"its process {vitals.stopped} is stopped (SIGSTOP) for {stopped_s:.0f} s", stopped_s)
        if idle_s >= SILENT_AFTER_S:
            return Frozen(f"it gives /health no answer for {silent_s:.0f} s and works at nothing", silent_s)
        if silent_s >= DEAF_AFTER_S:
            return Frozen(f"it gives /health no answer for {silent_s:.0f} s", silent_s)
        return None
