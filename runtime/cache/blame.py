"""After a start that restored a bundle failed: is the bundle to blame? Pure.

To put a good bundle aside costs one compile; to restore a bad one again costs every start. So what can be the
artifact's doing is taken for it: at once where it is likely, at the second time in a row where it is only possible.
What is known to have another cause is never held against a bundle, else a wrong argument would cost the cache.
"""

from dataclasses import dataclass
from enum import StrEnum

from runtime.contract import Failure, FailureCause, Stage

SOON_S = 900.0
"""A death so soon after the engine began may still be the first use of an artifact; later ones had their chance."""

TWICE = 2

CODE_SIGNALS = frozenset({"SIGSEGV", "SIGILL", "SIGBUS", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS"})
"""What a process does to itself by bad code; other signals are sent by somebody, or by the kernel for memory."""

USING = frozenset(
    {
        Stage.WEIGHT_CONVERT,  # Triton kernels reorder weights
        Stage.MEMORY_PROFILE,  # startup plan; the first run through the model
        Stage.COMPILE,
        Stage.WARM_UP,
        Stage.KV_CACHE,
        Stage.GRAPH_CAPTURE,
        Stage.ENGINE_READY,
        Stage.GOLDEN_PROMPT,
    }
)
"""Stages in which an engine runs what was restored, or may still die of having done so."""

_NOT_THE_BUNDLE = frozenset(
    {
        FailureCause.MODEL_MISSING,
        FailureCause.MODEL_INCOMPLETE,
        FailureCause.UNSUPPORTED_MODEL,
        FailureCause.BAD_ARGUMENTS,
        FailureCause.SPAWN_FAILED,
        FailureCause.PORT_TAKEN,
        FailureCause.NO_COMPILER,
        FailureCause.NO_MEMORY,
        FailureCause.NOT_SERVED,
        FailureCause.HOST_LOST,
        FailureCause.UNSCHEDULABLE,
        FailureCause.IMAGE_PULL,
        FailureCause.POD_REFUSED,
        FailureCause.POD_CONFIG,
        FailureCause.INIT_FAILED,
        FailureCause.PROBE_FAILED,
        FailureCause.EVICTED,
        FailureCause.NODE_LOST,
        FailureCause.PROGRESS_DEADLINE,
    }
)


class Blame(StrEnum):
    """What follows for the bundle."""

    NONE = "none"
    FINDING = "finding"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The blame, and why in words for record and event. `counts`: it may be the bundle's doing, as may the next."""

    blame: Blame
    why: str
    counts: bool = False


def judge_failure(digest: str | None, failure: Failure, seconds: float, before: int) -> Judgement:
    """Judge a start, or an engine soon after it, that failed with the restored bundle `digest` (None: none restored).

    `seconds`: from the engine's begin (T4) to its end. `before`: how many starts in a row had failed with this digest
    in a way that counts.
    """
    if digest is None:
        return Judgement(Blame.NONE, "no bundle was restored")
    cause = _how(failure)
    if cause in _NOT_THE_BUNDLE:
        return Judgement(Blame.NONE, f"{cause.value} does not come of compiled artifacts")
    if seconds > SOON_S:
        return Judgement(Blame.NONE, f"the engine had run for {seconds:.0f} s, longer than {SOON_S:.0f} s")
    if foreign := _foreign_signal(failure):
        return Judgement(Blame.NONE, f"{foreign} was sent to the engine by somebody")
    if reason := _likely(failure, cause):
        return Judgement(Blame.QUARANTINE, reason)
    if before + 1 >= TWICE:
        return Judgement(Blame.QUARANTINE, f"{before + 1} starts in a row failed with it, now by {cause.value}")
    why = f"{cause.value} may have another reason; a second time in a row it counts"
    return Judgement(Blame.NONE, why, counts=True)


def judge_recompiled(times: int) -> Judgement:
    """Judge a bundle that engines were given `times` times in a row, and compiled all the same."""
    if times >= TWICE:
        why = f"engines recompiled {times} times in a row with it: it is of no use, and of no harm"
        return Judgement(Blame.FINDING, why)
    return Judgement(Blame.NONE, "recompiled once; a second time in a row is a finding")


def _how(failure: Failure) -> FailureCause:
    """The cause that a start would have had; a death after ready keeps it aside."""
    how = failure.numbers.get("how")
    known = {cause.value: cause for cause in FailureCause}
    return known.get(str(how), failure.cause) if failure.cause is FailureCause.DIED_AFTER_READY else failure.cause


def _foreign_signal(failure: Failure) -> str | None:
    name = failure.numbers.get("signal")
    return str(name) if name is not None and name not in CODE_SIGNALS else None


def _likely(failure: Failure, cause: FailureCause) -> str | None:
    name = failure.numbers.get("signal")
    if name in CODE_SIGNALS:
        return f"{name} soon after it was restored"
    if cause in {FailureCause.GOLDEN_WRONG, FailureCause.GOLDEN_FAILED}:
        return "it did not give the golden answer with it"
    stage = failure.numbers.get("stage")
    if cause in {FailureCause.EXITED, FailureCause.STUCK} and stage in USING:
        return f"{cause.value} during {stage}, where the engine uses it"
    return None
