"""How many processes the kernel has killed for memory where a process lives.

From its memory cgroup: `memory.events` (v2) or `memory.oom_control` (v1); where neither can be read, for the whole
machine from `/proc/vmstat`. A cgroup is shared by the engines of one host, so the count is evidence for a SIGKILL that
was seen, never a proof by itself.
"""

from collections import deque
from pathlib import Path

WINDOW_S = 60.0
"""How far back a kill still explains an end: vLLM needs up to 10 s from a worker's death to its own."""


def counter_of(pid: int, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """The file that counts for this process, found while it lives; None where the kernel tells nothing."""
    for path in (*_files(pid, proc, cgroups), proc / "vmstat"):
        if count_in(path) is not None:
            return path
    return None


def _files(pid: int, proc: Path, cgroups: Path) -> list[Path]:
    """Where the count may stand, the nearest cgroup first."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        inside = path.lstrip("/")
        if "memory" in controllers.split(","):
            # In a container the path may be the host's, while the mount already is the container's own cgroup.
            found += [cgroups / "memory" / inside / "memory.oom_control", cgroups / "memory" / "memory.oom_control"]
        elif not controllers:
            found += [cgroups / inside / "memory.events", cgroups / "memory.events"]
    return found


def count_in(path: Path) -> int | None:
    """The kernel's count so far; None where the file does not tell it."""
    try:
        fields = dict(line.split(None, 1) for line in path.read_text().splitlines())
        return int(fields["oom_kill"])
    except (OSError, ValueError, KeyError):
        return None


class OomWindow:
    """The kills of the last `WINDOW_S` seconds, from the counter (None: nothing is known) sampled now and then."""

    def __init__(self, counter: Path | None) -> None:
        self._counter = counter
        self._samples: deque[tuple[float, int]] = deque()

    def take(self, now_s: float) -> None:
        """Sample the counter."""
        count = None if self._counter is None else count_in(self._counter)
        if count is None:
            return
        self._samples.append((now_s, count))
        # One sample older than the window stays: the count at its beginning.
        while len(self._samples) > 1 and self._samples[1][0] <= now_s - WINDOW_S:
            self._samples.popleft()

    @property
    def kills(self) -> int | None:
        """How many in the window; None while nothing was ever counted."""
        return self._samples[-1][1] - self._samples[0][1] if self._samples else None
