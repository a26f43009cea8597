"""The page of failures: how each is told, what a client hears, when the next try is.

Waits are computed by the code that waits; tests/unit/runtime/test_failures_page.py makes each failure happen and
compares its message with the row's, so that neither can change without the other. `…` stands for what varies.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from runtime.contract import Failure, FailureCause
from runtime.host.retry import LONGEST_WAIT_S, PORT_TRIES, wait_s
from scripts import pod_failures

ANY = "…"
SHOWN_TRIES = 4


@dataclass(frozen=True, slots=True)
class Row:
    """One failure. `permanent`: the same spec and files would fail again."""

    failure: str
    told: str
    cause: FailureCause
    permanent: bool
    message: str


_LOG = f" (log: {ANY})"
_EXIT = f"the engine exited with code {ANY} during {ANY}: "
_MODEL_FIX = ": copy the model directory again, whole"

ROWS: tuple[Row, ...] = (
    Row(
        "bad model path",
        "the host looks before it starts anything",
        FailureCause.MODEL_MISSING,
        permanent=True,
        message=f"model directory {ANY} does not exist on this host: copy the model there or correct the path",
    ),
    Row(
        "a file of the model missing, cut short or unreadable",
        "config, tokenizer, every shard that the index names, header against size",
        FailureCause.MODEL_INCOMPLETE,
        permanent=True,
        message=f"{ANY} {ANY}{_MODEL_FIX}",
    ),
    Row(
        "pickled weights that nobody allowed",
        "file names, before any is opened",
        FailureCause.MODEL_INCOMPLETE,
        permanent=True,
        message=f"{ANY} is pickled: reading it can run code. Convert the model once (`pilotlight weights prepare "
        f"{ANY} OUT`), or allow the file by its name",
    ),
    Row(
        "a bucket that does not answer, or may not be read",
        "a listing and ranged reads with the engine's own credentials, 10 s for each answer",
        FailureCause.MODEL_MISSING,
        permanent=False,
        message=f"{ANY}: the store at {ANY} gave no answer within {ANY} s: is it reachable from here, and is "
        "AWS_ENDPOINT_URL right?",
    ),
    Row(
        "no room for the weights, seen before the start",
        "memory that the machine and its cgroups leave, `/dev/shm` for several ranks",
        FailureCause.NO_MEMORY,
        permanent=False,
        message=f"the start would fail: the weights take {ANY}, {ANY} has {ANY} of memory left: raise the memory "
        "limit, or serve a smaller or quantized model",
    ),
    Row(
        "unsupported architecture or model type",
        "vLLM's exception",
        FailureCause.UNSUPPORTED_MODEL,
        permanent=True,
        message=f"{_EXIT}{ANY}; name another model, or run a vLLM that knows this one{_LOG}",
    ),
    Row(
        "arguments that vLLM does not take",
        "its usage error, or its validation of the configuration",
        FailureCause.BAD_ARGUMENTS,
        permanent=True,
        message=f"{_EXIT}{ANY}; correct the arguments of the service{_LOG}",
    ),
    Row(
        "an argument or variable that is the launcher's",
        "the launcher, before it starts anything",
        FailureCause.BAD_ARGUMENTS,
        permanent=True,
        message=f"the engine cannot be started: {ANY}",
    ),
    Row(
        "no directory, process or file to be had (full disk, limits)",
        "the system's error",
        FailureCause.SPAWN_FAILED,
        permanent=False,
        message=f"the engine's directory cannot be made: {ANY}",
    ),
    Row(
        "port taken",
        "`Address already in use` among the engine's exceptions",
        FailureCause.PORT_TAKEN,
        permanent=False,
        message=f"{_EXIT}{ANY}; another process took its port meanwhile; the next try takes another one{_LOG}",
    ),
    Row(
        "no compiler",
        "inductor's or Triton's exception",
        FailureCause.NO_COMPILER,
        permanent=True,
        message=f"{_EXIT}{ANY}; install a C++ compiler and Python's headers where the host runs (Debian: g++, "
        f"python3-dev){_LOG}",
    ),
    Row(
        "no memory, told by the engine",
        "`MemoryError`, `OutOfMemoryError`, no room for the KV cache and the like",
        FailureCause.NO_MEMORY,
        permanent=False,
        message=f"{_EXIT}{ANY}; give it more memory, or let it ask for less (--max-model-len, --max-num-seqs, "
        f"VLLM_CPU_KVCACHE_SPACE){_LOG}",
    ),
    Row(
        "no memory, ended by the kernel",
        "SIGKILL to one of its processes, and the kernel's count of such kills in the engine's memory cgroup rose in "
        "the minute before",
        FailureCause.NO_MEMORY,
        permanent=False,
        message=f"the engine was killed by SIGKILL during {ANY}; the kernel killed it for memory: give it more, or let "
        f"it ask for less (--max-model-len, --max-num-seqs){_LOG}",
    ),
    Row(
        "killed",
        "the exit status of the engine, or of its process that a signal ended, as its parent tells it",
        FailureCause.KILLED,
        permanent=False,
        message=f"the engine was killed by SIGKILL during {ANY}; the kernel counted no out-of-memory kill, so somebody "
        f"sent the signal{_LOG}",
    ),
    Row(
        "any other end of a start",
        "the exit code, and the last exception that is no echo of another",
        FailureCause.EXITED,
        permanent=False,
        message=f"{_EXIT}{ANY}{_LOG}",
    ),
    Row(
        "stuck",
        "no new stage, no log line, no CPU, no disk for twice the longest stage of the service's newest ten starts "
        "(60 s to 900 s; 300 s while none is known)",
        FailureCause.STUCK,
        permanent=False,
        message=f"the start is stuck in {ANY}: no sign of life for {ANY} s (no log line, no CPU and no disk used); it "
        f"was ended{_LOG}",
    ),
    Row(
        "too slow",
        "the start timeout (`serving.knative.dev/progress-deadline`, 30 min without one)",
        FailureCause.START_TIMEOUT,
        permanent=False,
        message=f"the start took longer than {ANY} s, last in {ANY}: raise the start timeout or see {ANY}",
    ),
    Row(
        "another model answers",
        "`/v1/models`",
        FailureCause.NOT_SERVED,
        permanent=True,
        message=f"the engine answers at {ANY} but does not serve {ANY} (it serves {ANY}): look for --served-model-name "
        "in the service's arguments",
    ),
    Row(
        "golden prompt fails",
        "no answer, a status other than 200, no tokens",
        FailureCause.GOLDEN_FAILED,
        permanent=False,
        message=f"the golden prompt failed: {ANY}",
    ),
    Row(
        "golden answer wrong: other tokens than the policy declares",
        "the tokens",
        FailureCause.GOLDEN_WRONG,
        permanent=True,
        message=f"the golden prompt gave {ANY}, expected {ANY}: the weights or the engine changed; correct them, or "
        "declare the new golden tokens",
    ),
    Row(
        "golden answer wrong: other tokens than an earlier start of the same weights gave",
        "the tokens",
        FailureCause.GOLDEN_WRONG,
        permanent=False,
        message=f"the golden prompt gave {ANY}, expected {ANY}: the same weights, arguments and build gave those "
        "before; check memory and disk, or declare golden tokens",
    ),
    Row(
        "golden answer wrong: two answers at temperature 0 differ",
        "the tokens",
        FailureCause.GOLDEN_WRONG,
        permanent=False,
        message=f"the golden prompt gave {ANY}, expected {ANY}: two answers at temperature 0 differ; the engine is not "
        "deterministic, declare other arguments",
    ),
    Row(
        "died after it was ready",
        "as of a start; `numbers.how` has the cause that a start would have",
        FailureCause.DIED_AFTER_READY,
        permanent=False,
        message=f"the engine exited with code {ANY}: {ANY}{_LOG}",
    ),
    Row(
        "frozen after it was ready",
        "a process of it is stopped for 10 s; or no answer on `/health` for 30 s and neither CPU nor disk used; or no "
        "answer for 300 s",
        FailureCause.FROZEN,
        permanent=False,
        message=f"the engine is frozen: {ANY}; it was ended, and another takes its place when wanted{_LOG}",
    ),
    Row(
        "the host ended",
        "another host answers in its place; the kernel ended its engines with it",
        FailureCause.HOST_LOST,
        permanent=False,
        message=f"the host {ANY} ended, and its engines with it; {ANY} takes its place",
    ),
)


def page() -> str:
    """The page's body."""
    head = ("failure", "how it is told", "cause", "would the same fail again", "message", "next try after")
    lines = [head, tuple("---" for _ in head), *_cells()]
    table = "\n".join(f"| {' | '.join(cell.replace('|', '¦') for cell in line)} |" for line in lines)
    return f"{_INTRODUCTION}\n\n{table}\n\n{pod_failures.section()}"


def _cells() -> Iterator[tuple[str, ...]]:
    for row in ROWS:
        again = "yes" if row.permanent else "perhaps not"
        yield row.failure, row.told, f"`{row.cause.value}`", again, row.message, ", ".join(_waits(row))


def _waits(row: Row) -> Iterable[str]:
    failure = Failure(cause=row.cause, message="", at=datetime(2026, 1, 1, tzinfo=UTC), permanent=row.permanent)
    if row.cause is FailureCause.HOST_LOST:
        return ["at once: a new host knows of no failure"]
    waits = [wait_s(failure, in_row) for in_row in range(1, SHOWN_TRIES + 1)]
    if len(set(waits)) == 1:
        return [f"{waits[0]:.0f} s"]
    return [*("at once" if wait == 0 else f"{wait:.0f} s" for wait in waits), f"… {LONGEST_WAIT_S:.0f} s"]


_INTRODUCTION = f"""\
Every failure has a cause. It stands with its message, its numbers (`exit_code`, `signal`, `process`, `oom_kills`,
`stage`, …) and the lines of the engine's log around it in the service's `last_failure`, which stays until the next
failure, at zero and through a restart of `up`; in the start's record; as an event `failure`; and in
`pilotlight_failures_total` by cause.

A client that waits gets it as 503 in the shape of OpenAI's errors: `error.code` is the cause, `error.message` the
message after the service's name, and `Retry-After` the seconds to the next try. Until then every further request is
answered so at once: none waits for a start that cannot succeed. Where the next try comes at once, requests wait for it.

A failed start is tried again only for who wants the service then: a waiting request, a hold, a schedule, `bounds.min`.
The wait doubles with each failure in a row up to {LONGEST_WAIT_S:.0f} s. It ends early when the service is edited
and, where the same would fail again, when a file of the model changes. A row of failures ends with an engine that
served for a minute, an edit, or ten minutes without a try. More than {PORT_TRIES} taken ports in a row are no
chance any more."""
