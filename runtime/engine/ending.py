"""Why did the engine end? Its exit code or signal, the stage it was in and the log line that explains it."""

import signal
from pathlib import Path

from runtime.contract import FailureCause, Stage
from runtime.engine.lines import cause_in
from runtime.ready.fault import Fault

_HINTS = {
    "SIGKILL": "the kernel kills what exceeds its memory: look for an out-of-memory kill",
    "SIGILL": "the CPU refused an instruction: with --enforce-eager on a CPU with AMX, leave compilation on",
}


def ended(
    returncode: int, tail: tuple[str, ...], log: Path, *, stage: Stage | None = None, cause: FailureCause | None = None
) -> Fault:
    """The fault of a leader that ended with `returncode` (negative: a signal). `cause` None: EXITED or KILLED."""
    numbers: dict[str, float | str] = {}
    if returncode < 0:
        name = _signal_name(-returncode)
        numbers["signal"] = name
        what = f"the engine was killed by {name}"
        hint = _HINTS.get(name, "")
    else:
        numbers["exit_code"] = returncode
        what, hint = f"the engine exited with code {returncode}", ""
    if stage is not None:
        numbers["stage"] = stage.value
        what += f" during {stage.value}"
    line = cause_in(tail)
    if line is not None:
        numbers["line"] = line
        what += f": {line}"
    advice = f"; {hint}" if hint else ""
    default = FailureCause.KILLED if returncode < 0 else FailureCause.EXITED
    return Fault(cause or default, f"{what}{advice} (log: {log})", numbers)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
