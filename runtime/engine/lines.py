"""Engine log lines as data: who said it, at what level, and which one explains a failure.

Format: `(EngineCore pid=7) INFO 11-29 20:45:47 [core.py:133] text`; the first part is missing before a process has
named itself, all of it on lines that libraries print.
"""

import re
from dataclasses import dataclass
from datetime import datetime

from runtime.engine.obituary import Death
from runtime.engine.obituary import parse as parse_death

_LINE = re.compile(
    r"^(?:\((?P<process>[\w.-]+) pid=(?P<pid>\d+)\) ?)?"
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?"
    r"(?P<text>.*)$"
)
_EXCEPTION = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?\w*(?:Error|Exception|Interrupt|Exit)\b(?::.*)?$|\berror: \S")
_ECHO = re.compile(
    r"Engine core initialization failed|EngineDeadError|WorkerProc initialization failed|EngineCore failed to start"
    r"|EngineCore encountered an issue|Executor failed|RuntimeError: cancelled|CancelledError|Fatal Python error"
)
"""Lines by which vLLM, or Python, only passes on that a process failed."""
_CRASH = re.compile(r"^terminate called after throwing|^  what\(\):")
"""How a C++ exception that nobody caught ends a process."""
_DEATH = re.compile(
    r"Worker proc (?P<worker>\S+) died unexpectedly \(exit code: (?P<worker_code>-?\d+)\)"
    r"|Failed core proc\(s\): \{'(?P<core>\w+)': (?P<core_code>-?\d+)"
)
"""How vLLM 0.32 tells of one of its processes that ended; a negative code is a signal."""
_NOISE = re.compile(r"PILOTLIGHT_MARK |^ - leaked |^ - \.\.\. skipped|^nanobind: ")
_ONLY_WAITS = re.compile(
    r"No available shared memory broadcast block found|Waiting for \d+ local, \d+ remote core engine"
)
"""Lines by which vLLM says again and again that nothing has happened yet."""
MAX_CAUSE_CHARS = 400


@dataclass(frozen=True, slots=True)
class EngineLine:
    """One line of the engine's output, read at `at`. `process` and `pid` None: the line does not say."""

    at: datetime
    text: str
    process: str | None = None
    pid: int | None = None
    level: str | None = None


def read_line(at: datetime, line: str) -> EngineLine:
    """Split one line of output into its parts; any text is a line."""
    found = _LINE.match(line)
    if found is None:
        return EngineLine(at=at, text=line)
    pid = found["pid"]
    return EngineLine(at, found["text"], found["process"], int(pid) if pid else None, found["level"])


def excerpt(tail: tuple[str, ...], lines: int = 20) -> tuple[str, ...]:
    """The lines that go with a failure: those before the line that explains it and some after, else the last ones.

    Our own markers are left out, and what nanobind says of itself at each end.
    """
    said = [line for line in tail if not _NOISE.search(line)]
    explains = [place for place, line in enumerate(said) if _explains(line)]
    end = min(explains[-1] + 1 + lines // 4, len(said)) if explains else len(said)
    return tuple(said[max(0, end - lines) : end])


def _explains(line: str) -> bool:
    return death_told(line) is not None or any(not _ECHO.search(text) for text in exceptions_in((line,)))


def only_waits(text: str) -> bool:
    """Whether a line says no more than that the engine still waits: no sign of life."""
    return _ONLY_WAITS.search(text) is not None


def death_in(tail: tuple[str, ...]) -> Death | None:
    """The first death of a child process that the lines tell; None where they tell none, or an exception before it.

    What follows an exception is vLLM's own taking down.
    """
    for line in tail:
        if death := death_told(line):
            return death
        if _explains(line):
            return None
    return None


def death_told(line: str) -> Death | None:
    """The death of a child process that one line tells, ours or vLLM's."""
    if found := _DEATH.search(line):
        return Death(found["worker"] or found["core"], int(found["worker_code"] or found["core_code"]))
    return parse_death(line)


def exceptions_in(tail: tuple[str, ...]) -> tuple[str, ...]:
    """Every line that tells of an exception, without who said it.

    pydantic names only a count in its first line, so that a `validation error` takes the line after it along.
    """
    texts = [read_line(datetime.min, line).text.rstrip() for line in tail]  # noqa: DTZ901  (the instant is not used)
    found = []
    for place, text in enumerate(texts):
        if _EXCEPTION.search(text.strip()) or _CRASH.search(text):
            follow = texts[place + 1] if "validation error" in text and place + 1 < len(texts) else ""
            found.append(f"{text.strip()} {follow.strip()}".strip())
    return tuple(found)


def cause_in(tail: tuple[str, ...]) -> str | None:
    """The line that best explains why the engine ended: the last exception that is no echo of another one.

    Where all are echoes, the first of them; where there is none, None.
    """
    lines = exceptions_in(tail)
    roots = [line for line in lines if not _ECHO.search(line)]
    best = (roots[-1:] or list(lines[:1]))[:1]
    return _shortened(best[0]) if best else None


def _shortened(line: str) -> str:
    """Without pydantic's own annotations and vLLM's list of all it supports, at most `MAX_CAUSE_CHARS`."""
    return line.partition(" [type=")[0].partition(" Supported architectures:")[0][:MAX_CAUSE_CHARS]


def last_words(tail: tuple[str, ...]) -> str | None:
    """The last line, unless it only reports that all is well."""
    if not tail:
        return None
    last = read_line(datetime.min, tail[-1])  # noqa: DTZ901  (the instant is not used)
    calm = last.level in {"DEBUG", "INFO"} or last.text.startswith("INFO:")
    return None if calm else last.text.strip()[:MAX_CAUSE_CHARS]
