"""Why did the engine end? Its exit code or signal, the stage it was in and the log line that explains it."""

import signal
from dataclasses import dataclass
from pathlib import Path

from runtime.contract import FailureCause, Stage
from runtime.engine.causes import cause_of
from runtime.engine.lines import cause_in, death_in, exceptions_in, excerpt, last_words
from runtime.engine.obituary import Death
from runtime.ready.fault import Fault

_NO_OOM = "the kernel counted no out-of-memory kill, so somebody sent the signal"
_OOM = "the kernel killed it for memory: give it more, or let it ask for less (--max-model-len, --max-num-seqs)"
_MAYBE_OOM = "the kernel kills so what exceeds its memory: look for an out-of-memory kill"
_HINTS = {"SIGILL": "the CPU refused an instruction: with --enforce-eager on a CPU with AMX, leave compilation on"}


@dataclass(frozen=True, slots=True)
class End:
    """How an engine ended. `returncode` is its leader's (negative: a signal); `tail` its last lines, `log` its file.

    `oom_kills`: how many processes the kernel killed for memory meanwhile where the engine lives; None: not known.
    """

    returncode: int
    tail: tuple[str, ...]
    log: Path
    oom_kills: int | None = None


@dataclass(frozen=True, slots=True)
class _Why:
    cause: FailureCause
    text: str
    fix: str
    permanent: bool
    numbers: dict[str, float | str]


def failed_start(end: End, stage: Stage | None) -> Fault:
    """The fault of a start whose engine ended during `stage`."""
    why = _why(end, stage)
    return Fault(why.cause, _sentence(why, end), why.numbers, permanent=why.permanent, tail=excerpt(end.tail))


def died(end: End) -> Fault:
    """The fault of an engine that had answered its golden prompt; `how` in its numbers says what a start would say."""
    why = _why(end, None)
    numbers = why.numbers | {"how": why.cause.value}
    return Fault(FailureCause.DIED_AFTER_READY, _sentence(why, end), numbers, tail=excerpt(end.tail))


def _sentence(why: _Why, end: End) -> str:
    fix = f"; {why.fix}" if why.fix else ""
    return f"{why.text.rstrip('.')}{fix} (log: {end.log})"


def _why(end: End, stage: Stage | None) -> _Why:
    line = cause_in(end.tail)
    numbers: dict[str, float | str] = {} if end.returncode < 0 else {"exit_code": end.returncode}
    during = f" during {stage.value}" if stage is not None else ""
    if stage is not None:
        numbers["stage"] = stage.value
    if (victim := _killed(end)) is not None:
        return _by_signal(end, victim, numbers, during, line)
    line = line or last_words(end.tail)
    told = f": {line}" if line is not None else ""
    if line is not None:
        numbers["line"] = line
    text = f"the engine exited with code {end.returncode}{during}{told}"
    rule = cause_of(exceptions_in(end.tail))
    if rule is None:
        return _Why(FailureCause.EXITED, text, "", permanent=False, numbers=numbers)
    return _Why(rule.cause, text, rule.fix, rule.permanent, numbers)


def _killed(end: End) -> Death | None:
    """Which process a signal ended: the leader itself, or the child whose end made it exit."""
    if end.returncode < 0:
        return Death("the engine", end.returncode)
    death = death_in(end.tail)
    return death if death is not None and death.code < 0 else None


def _by_signal(end: End, victim: Death, numbers: dict[str, float | str], during: str, line: str | None) -> _Why:
    name = _signal_name(-victim.code)
    numbers = numbers | {"signal": name}
    if victim.process != "the engine":
        numbers["process"] = victim.process
    if end.oom_kills is not None:
        numbers["oom_kills"] = end.oom_kills
    who = victim.process if victim.process == "the engine" else f"the engine's process {victim.process}"
    text = f"{who} was killed by {name}{during}"
    if end.returncode < 0 and line is not None:
        numbers["line"] = line
        text += f": {line}"
    if name != "SIGKILL":
        return _Why(FailureCause.KILLED, text, _HINTS.get(name, ""), permanent=False, numbers=numbers)
    if end.oom_kills is None:
        return _Why(FailureCause.KILLED, text, _MAYBE_OOM, permanent=False, numbers=numbers)
    if end.oom_kills > 0:
        return _Why(FailureCause.NO_MEMORY, text, _OOM, permanent=False, numbers=numbers)
    return _Why(FailureCause.KILLED, text, _NO_OOM, permanent=False, numbers=numbers)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
