"""The machine under the bench: what must be installed, which core does what, who else uses the proxy's core."""

import os
import resource
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_DEBIAN = {"haproxy": "haproxy", "caddy": "caddy", "wrk": "wrk", "taskset": "util-linux", "setpriv": "util-linux"}
"""Program → Debian package."""

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class BenchFailed(Exception):
    """The bench cannot go on, or its figures would be worthless; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Which CPU the proxy has to itself, and which one everything else shares: wrk, the null backend, the bench."""

    proxy: int
    load: int


def cores(allowed: set[int] | None = None) -> Cores:
    """The highest two of the CPUs that we may use, as the lowest serve most interrupts. Raises BenchFailed."""
    ours = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
    if len(ours) < 2:
        raise BenchFailed("this process may use one CPU only: the proxy needs one and the load another. Allow two.")
    return Cores(proxy=ours[-1], load=ours[-2])


def check_programs(which: Callable[[str], str | None] = shutil.which) -> None:
    """Raise BenchFailed unless all programs that the bench runs are there; the message has the line that gets them."""
    missing = [program for program in _DEBIAN if which(program) is None]
    if missing:
        packages = " ".join(dict.fromkeys(_DEBIAN[program] for program in missing))
        raise BenchFailed(
            f"{', '.join(missing)} not found. Install {'it' if len(missing) == 1 else 'them'}: "
            f"apt-get install --no-install-recommends {packages}"
        )


def raise_descriptor_limit(wanted: int) -> None:
    """Let this process and its children open as many files as they may. Raises BenchFailed if that is too few."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise BenchFailed(
            f"the limit of open files is {hard}, {wanted} are needed: raise it with `ulimit -Hn {wanted}`"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def busy_s(cpu: int, stat: str | None = None) -> float:
    """Seconds that `cpu` was not idle since the machine began, taken away by its hypervisor included."""
    text = Path("/proc/stat").read_text(encoding="ascii") if stat is None else stat
    for line in text.splitlines():
        name, *ticks = line.split()
        if name == f"cpu{cpu}":
            # user nice system idle iowait irq softirq steal; guest times after them are part of user and nice.
            return sum(int(ticks[n]) for n in (0, 1, 2, 5, 6, 7)) * _TICK_S
    raise BenchFailed(f"/proc/stat knows no cpu{cpu}")
