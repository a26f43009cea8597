"""Engine log lines as data: who said it, at what level, and which one explains a failure.

Format: `(EngineCore pid=7) INFO 11-29 20:45:47 [core.py:133] text`; the first part is missing before a process has
named itself, all of it on lines that libraries print.
"""

import re
from dataclasses import dataclass
from datetime import datetime

_LINE = re.compile(
    r"^(?:\((?P<process>[\w.-]+) pid=(?P<pid>\d+)\) ?)?"
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?"
    r"(?P<text>.*)$"
)
_EXCEPTION = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?\w*(?:Error|Exception|Interrupt|Exit)\b(?::.*)?$|\berror: \S")
_ECHO = re.compile(
    r"Engine core initialization failed|EngineDeadError|WorkerProc initialization failed|EngineCore failed to start"
)
"""Lines by which vLLM only passes on that another process failed."""
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


def cause_in(tail: tuple[str, ...]) -> str | None:
    """The line that best explains why the engine ended: the last exception that is no echo of another one.

    Where there is none, the last line, which a crash in C++ leaves; None where that says nothing either.

    pydantic names only a count in its first line, so that a `validation error` takes the line after it along.
    """
    texts = [read_line(datetime.min, line).text.strip() for line in tail]  # noqa: DTZ901  (the instant is not used)
    best: str | None = None
    for place, text in enumerate(texts):
        if not _EXCEPTION.search(text) or (best is not None and _ECHO.search(text)):
            continue
        follow = texts[place + 1] if "validation error" in text and place + 1 < len(texts) else ""
        best = f"{text} {follow}".strip()
    if best is None:
        return _last_words(tail)
    return best.partition(" [type=")[0][:MAX_CAUSE_CHARS]


def _last_words(tail: tuple[str, ...]) -> str | None:
    """The last line, unless it only reports that all is well."""
    if not tail:
        return None
    last = read_line(datetime.min, tail[-1])  # noqa: DTZ901  (the instant is not used)
    calm = last.level in {"DEBUG", "INFO"} or last.text.startswith("INFO:")
    return None if calm else last.text.strip()[:MAX_CAUSE_CHARS]
