"""Says which child process of an engine a signal ended, and which signal: vLLM itself tells it only sometimes.

Runs inside the engine's processes, as the markers do, and imports only the standard library. A child that its own
parent ended (vLLM takes its workers down with SIGTERM, then SIGKILL) is not told; one that was dead when its parent
came to end it, is: what counts is the signal that it died of.
"""

import json
import os
from dataclasses import asdict, dataclass
from multiprocessing import popen_fork, process

from runtime.engine.marker import STAGES_ENV

PREFIX = "PILOTLIGHT_DEATH "


@dataclass(frozen=True, slots=True)
class Death:
    """One of the engine's processes ended: which, and its exit code (negative: a signal)."""

    process: str
    code: int


def tell_deaths() -> None:
    """From now on this process says of each multiprocessing child that a signal of somebody else ended.

    The one method through which multiprocessing reaps a child is `Popen.poll`; by `_send_signal` it ends one.
    """
    if os.environ.get(STAGES_ENV) != "1":
        return
    poll, send = popen_fork.Popen.poll, popen_fork.Popen._send_signal  # type: ignore[attr-defined]  # private in typeshed
    sent: set[tuple[int, int]] = set()

    def telling_poll(self: popen_fork.Popen, flag: int = os.WNOHANG) -> int | None:
        before = self.returncode
        code: int | None = poll(self, flag)
        if before is None and code is not None and code < 0 and (self.pid, -code) not in sent:
            os.write(2, render(Death(_name(self), code)).encode() + b"\n")
        return code

    def noting_send(self: popen_fork.Popen, number: int) -> None:
        sent.add((self.pid, number))
        send(self, number)

    popen_fork.Popen.poll = telling_poll  # type: ignore[method-assign]  # the patch itself
    popen_fork.Popen._send_signal = noting_send  # type: ignore[attr-defined]  # the patch itself


def _name(popen: popen_fork.Popen) -> str:
    for child in tuple(getattr(process, "_children", ())):
        if getattr(child, "_popen", None) is popen:
            return str(child.name)
    return f"pid {popen.pid}"


def render(death: Death) -> str:
    """The line, without its end."""
    return PREFIX + json.dumps(asdict(death))


def parse(line: str) -> Death | None:
    """The death that `line` tells, None if it tells none."""
    _, found, text = line.partition(PREFIX)
    if not found:
        return None
    try:
        told = json.loads(text)
        return Death(str(told["process"]), int(told["code"]))
    except (ValueError, TypeError, KeyError):
        return None
