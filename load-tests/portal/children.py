"""Processes of the bench: each pinned to a CPU, and gone when the bench is gone, however it ends."""

import contextlib
import json
import math
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from portal.machine import BenchFailed

_END_S = 5.0


def _pinned(cpu: int, command: Sequence[str]) -> list[str]:
    # Both replace themselves by what follows, so the process is the command's own. The kernel ends it with us.
    return ["taskset", "--cpu-list", str(cpu), "setpriv", "--pdeathsig", "KILL", *command]


@contextlib.contextmanager
def running(
    command: Sequence[str], *, cpu: int, log: Path, env: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process while the block runs; its stderr goes to `log`, its stdout is a pipe."""
    with log.open("wb") as errors:
        child = subprocess.Popen(
            _pinned(cpu, command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=env
        )
    try:
        yield child
    finally:
        _end(child)


def run_json(
    of: str, command: Sequence[str], *, cpu: int, timeout_s: float, each_second: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Run to the end; what its last line of stdout says. Raises BenchFailed with what it complained `of`.

    `each_second` is called about once a second meanwhile. What the program says must fit into a pipe.
    """
    name = Path(command[0]).name
    with subprocess.Popen(
        _pinned(cpu, command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        try:
            for _ in range(math.ceil(timeout_s)):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(1.0)
                    break
                each_second()
            else:
                raise BenchFailed(f"{of}: {name} did not end within {timeout_s:.0f} s")
            out, errors = child.communicate()
        finally:
            child.kill()
    lines = out.decode().strip().splitlines()
    if child.returncode != 0 or not lines:
        said = errors.decode(errors="replace").strip() or "\n".join(lines[-3:]) or "nothing"
        raise BenchFailed(f"{of}: {name} ended with {child.returncode} and said: {said}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def tree(pid: int) -> list[psutil.Process]:
    """The process and all below it; empty once it is gone."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_s(pid: int) -> float:
    """CPU seconds, user and system, that a process tree used so far; to 10 ms."""
    total = 0.0
    for process in tree(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def memory_bytes(processes: Sequence[psutil.Process]) -> int:
    """Memory of these processes: their own, and their share of what they share (PSS)."""
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total


def _end(child: "subprocess.Popen[bytes]") -> None:
    if child.stdout:
        child.stdout.close()
    below = tree(child.pid)[1:]
    child.terminate()
    try:
        child.wait(_END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for process in below:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
