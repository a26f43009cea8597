"""Looks at the machine's process table: which engine processes live under one `up`, and what is left of it at the end.

Independent of what Pilotlight says of itself: an engine process is any descendant of the host process but the one that
only holds vLLM's imports, and what that one runs: compilers, which ask what the processor can do. An engine forked from
it is the host's own child from its first instant on.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil

INTERVAL_S = 0.5
_HOST_MODULE = "runtime.host"
_FORK_MODULE = "runtime.engine.fork.server"


@dataclass(frozen=True, slots=True)
class Sample:
    """One look: how many engine processes lived, how much memory all of `up` held."""

    at: datetime
    engine_processes: int
    engine_bytes: int


class Watch:
    """Looks twice a second, in a thread, from `begin` to `end`, and remembers every process it ever saw."""

    def __init__(self, up_pid: int, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._up = psutil.Process(up_pid)
        self._clock = clock
        self._seen: set[psutil.Process] = {self._up}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.samples: list[Sample] = []

    def begin(self) -> None:
        """Look from now on."""
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> Sample:
        """One look now."""
        at = self._clock()
        family = descendants([self._up])
        engines = engines_of(family)
        self._seen |= family
        sample = Sample(at, len(engines), sum(resident_bytes(process) for process in engines))
        self.samples.append(sample)
        return sample

    def own_cpu_s(self) -> float:
        """Processor seconds that `up`, portal and host have used so far, engines not counted."""
        family = descendants([self._up]) | {self._up}
        engines = engines_of(family)
        total = 0.0
        for process in family - engines:
            with suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def left_over(self) -> list[str]:
        """Every process ever seen that still lives, `pid name`. A pid that another process took over is none."""
        return sorted(f"{process.pid} {_name(process)}" for process in self._seen if _lives(process))

    def kill_left_over(self) -> None:
        """End at once every process ever seen that still lives."""
        for process in self._seen:
            if _lives(process):
                with suppress(psutil.Error):
                    process.kill()

    def _run(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            self.look()


def descendants(roots: Iterable[psutil.Process]) -> set[psutil.Process]:
    """All children of `roots`, theirs, and so on; the roots themselves are not among them. Zombies do not count."""
    found: set[psutil.Process] = set()
    for root in roots:
        with suppress(psutil.Error):
            found |= {process for process in root.children(recursive=True) if _lives(process)}
    return found


def engines_of(family: Iterable[psutil.Process]) -> set[psutil.Process]:
    """The engine processes among the descendants of the hosts in `family`."""
    below = descendants(filter(is_host, family))
    imports = {each for each in below if imports_only(each)}
    return below - imports - descendants(imports)


def imports_only(process: psutil.Process) -> bool:
    """Whether this is the fork server, which runs no engine; its forks have its words, each in its own directory."""
    with suppress(psutil.Error):
        parent = process.parent()
        forks = _FORK_MODULE in process.cmdline()
        return forks and parent is not None and parent.cwd() == process.cwd()
    return False


def is_host(process: psutil.Process) -> bool:
    """Whether this is Pilotlight's host process, the parent of every engine."""
    with suppress(psutil.Error):
        return _HOST_MODULE in process.cmdline()
    return False


def resident_bytes(process: psutil.Process) -> int:
    """Resident memory, shared pages counted in each process; 0 if it is gone."""
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    return False


def _name(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return str(process.name())
    return "?"
