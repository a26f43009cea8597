"""A pod's story becomes its start records: one for each run of the engine's container, (pod UID, restart count).

T0 is our write, else the first waiting request, else the pod's creation; for a restart, the exit before. T1 and T2 come
from the API server, T3 and on from what the pod's own runtime posts. A pod without our runtime has T4 (its container
runs) and T9 (it answered, or Kubernetes called it Ready) alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from activator_ext.adapters.starts import causes
from activator_ext.adapters.starts.kinds import of_start, waited_for_node
from activator_ext.adapters.starts.objects import CUT, Run, Workload
from activator_ext.adapters.starts.story import PodStory, began, generation, run_of
from activator_ext.core.overlap import Stretch, unnamed
from runtime.contract import (
    Failure,
    Mark,
    PodStage,
    PodStageTime,
    PodTimes,
    StageTime,
    StartRecord,
    ready_seconds,
)

Marks = dict[Mark, datetime]
_NEVER_RUN = Run(index=0)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Who wanted a pod's replica, and since when: `written_at` our write, `waiting_at` the first waiting request."""

    written_at: datetime | None = None
    waiting_at: datetime | None = None
    why: str = ""


NOBODY = Wanted()
"""Nothing is known of who wanted it."""


def records(story: PodStory, wanted: Wanted = NOBODY, workloads: Iterable[Workload] = ()) -> tuple[StartRecord, ...]:
    """Every start of the pod that is known, the oldest first; the last one may be under way.

    Left out is a run that was over when the pod was first seen: whether it had ever been ready, its end does not tell.
    """
    known = tuple(workloads)
    made: list[StartRecord] = []
    for run in story.runs or (_NEVER_RUN,):
        if run is not story.current and story.runs and (not run.witnessed or _orphan(story, run)):
            continue
        mine = [each for each in story.posted if run_of(story, began(story, each)) == run.index]
        first = next((each for each in mine if generation(each) in (1, None)), None)
        made.append(_of_run(story, run, wanted, known, first))
        made += [_again(story, run, each, last=each is mine[-1]) for each in mine if each is not first]
    return tuple(made)


def _orphan(story: PodStory, run: Run) -> bool:
    """Whether the run before is forgotten, and with it when this one was asked for: its record was told already."""
    return run.index > 0 and all(each.index != run.index - 1 for each in story.runs)


def asked_at(story: PodStory, run: Run, wanted: Wanted) -> tuple[datetime, str]:
    """T0 and why: a wish counts only where the pod came after it, to the second that its creation was cut to."""
    before = next((each for each in reversed(story.runs) if each.index < run.index), None)
    if run.index:
        if before is not None and before.ended_at is not None:
            return before.ended_at, f"its container had ended ({causes.ended(story, before).cause.value})"
        return run.started_at or story.pod.created_at, "its container was started again"
    made = story.pod.created_at
    for at, why in ((wanted.written_at, wanted.why or "asked for"), (wanted.waiting_at, "a request waited")):
        if at is not None and at < made + CUT:
            return at, why
    return made, "its pod was created"


def _of_run(
    story: PodStory, run: Run, wanted: Wanted, workloads: tuple[Workload, ...], posted: StartRecord | None
) -> StartRecord:
    t0, why = asked_at(story, run, wanted)
    marks, skew_s = _in_order(_marks(story, run, t0, posted))
    stages = (*_pod_stages(story, run, marks), *(posted.stages if posted is not None else ()))
    outcome, failure, ended = _outcome(story, run, marks, workloads, posted)
    if outcome == "failed":
        marks.pop(Mark.T9, None)
    base = posted or StartRecord(id="", service="", replica="", kind=of_start(story, run.index, None))
    ready_s = ready_seconds(marks)
    values = {
        "id": f"{story.pod.uid}-{run.index}",
        "service": str(story.pod.service),
        "replica": f"{story.pod.service}/{story.pod.name}",
        "kind": of_start(story, run.index, posted.kind if posted is not None else None),
        "marks": marks,
        "stages": stages,
        "outcome": outcome,
        "failure": failure,
        "ended": ended,
        "ready_s": ready_s,
        "attributed": None if ready_s is None else _attributed(stages, marks[Mark.T0], ready_s),
        "why": why,
        "pod": _times(story, run, skew_s, teaches=skew_s is None and _teaches(story, run, posted)),
    }
    return base.model_copy(update=values)


def _again(story: PodStory, run: Run, posted: StartRecord, *, last: bool) -> StartRecord:
    """A start that the pod's own host made within one run of the container: all of it is the host's word.

    But how the `last` one ended, where the container took its host along.
    """
    values: dict[str, object] = {
        "id": f"{story.pod.uid}-{run.index}.{generation(posted) or posted.id}",
        "service": str(story.pod.service),
        "replica": f"{story.pod.service}/{story.pod.name}",
        "pod": _times(story, run, None, teaches=True),
    }
    over = run.ended_at is not None or story.gone_at is not None
    if last and over and posted.ended is None and posted.outcome in (None, "ready"):
        marks = posted.marks
        outcome, failure, ended = _outcome(story, run, marks, (), None)
        values |= {"outcome": outcome, "failure": failure, "ended": ended}
    return posted.model_copy(update=values)


def _marks(story: PodStory, run: Run, t0: datetime, posted: StartRecord | None) -> Marks:
    marks: Marks = {Mark.T0: t0}
    if run.index == 0:
        if story.scheduled_at is not None:
            marks[Mark.T1] = story.scheduled_at
        if story.pull is not None:
            marks[Mark.T2] = story.pull.at
        elif run.started_at is not None:
            marks[Mark.T2] = run.started_at
    elif run.started_at is not None:
        marks |= {Mark.T1: run.started_at, Mark.T2: run.started_at}
    if posted is not None:
        marks |= {mark: at for mark, at in posted.marks.items() if mark not in (Mark.T0, Mark.T1, Mark.T2)}
        return marks
    if run.started_at is not None:
        marks[Mark.T4] = run.started_at
    answered = [run.ready_at]
    if story.first_success_at is not None and run_of(story, story.first_success_at) == run.index:
        answered.append(story.first_success_at)
    if ready := [at for at in answered if at is not None]:
        marks[Mark.T9] = min(ready)
    return marks


def _in_order(marks: Marks) -> tuple[Marks, float | None]:
    """The marks, none before the one before it, and by how many seconds clocks disagreed if it was more than a cut."""
    ordered: Marks = {}
    reached, skew_s = None, 0.0
    for mark, at in sorted(marks.items()):
        if reached is not None and at < reached:
            skew_s = max(skew_s, (reached - at).total_seconds())
        reached = at if reached is None else max(reached, at)
        ordered[mark] = reached
    return ordered, skew_s if skew_s > CUT.total_seconds() else None


def _pod_stages(story: PodStory, run: Run, marks: Marks) -> tuple[PodStageTime, ...]:
    """What the API server shows of the time before the engine's own stages."""
    if run.index:
        return _stretch(PodStage.RESTART_WAIT, marks[Mark.T0], run.started_at)
    made = max(story.pod.created_at, marks[Mark.T0])
    scheduled = marks.get(Mark.T1)
    there = made
    parts = [*_stretch(PodStage.POD_CREATE, marks[Mark.T0], made)]
    if scheduled is not None and story.node is not None and waited_for_node(story):
        there = min(max(story.node.ready_at or scheduled, made), scheduled)
        parts += _stretch(PodStage.NODE_PROVISION, made, there)
    parts += _stretch(PodStage.SCHEDULE, there, scheduled)
    pull = story.pull
    begins = [each.started_at for _, each in story.init_runs if each.started_at is not None]
    pulling = pull.at - timedelta(seconds=pull.took_s) if pull is not None else None
    if scheduled is not None:
        next_at = min([*begins, *([pulling] if pulling is not None else [])], default=run.started_at)
        parts += _stretch(PodStage.POD_SETUP, scheduled, story.set_up_at if next_at is None else next_at)
    ends = [each.ended_at for _, each in story.init_runs if each.ended_at is not None]
    if begins and ends:
        parts += _stretch(PodStage.INIT_CONTAINERS, min(begins), max(ends))
    if pull is not None and pulling is not None:
        parts += _stretch(PodStage.IMAGE_PULL, pulling, pull.at, pull.size_bytes)
        parts += _stretch(PodStage.CONTAINER_START, pull.at, run.started_at)
    return tuple(parts)


def _stretch(
    stage: PodStage, begun_at: datetime, until: datetime | None, size_bytes: int | None = None
) -> tuple[PodStageTime, ...]:
    """The stage if it took any time that can be told."""
    if until is None or until <= begun_at:
        return ()
    elapsed_ms = round((until - begun_at).total_seconds() * 1000, 3)
    return (PodStageTime(stage=stage, begun_at=begun_at, elapsed_ms=elapsed_ms, bytes=size_bytes),)


def _attributed(stages: Sequence[StageTime | PodStageTime], t0: datetime, ready_s: float) -> float:
    """The share of T0 → T9 that stages name, overlaps counted once."""
    if ready_s <= 0:
        return 1.0
    begins = [(each, (each.begun_at - t0).total_seconds()) for each in stages]
    named = [Stretch(max(begin, 0.0), min(begin + each.elapsed_ms / 1000, ready_s)) for each, begin in begins]
    missing = sum(gap.end - gap.begin for gap in unnamed(named, ready_s))
    return round(1 - missing / ready_s, 4)


def _outcome(
    story: PodStory, run: Run, marks: Marks, workloads: tuple[Workload, ...], posted: StartRecord | None
) -> tuple[str | None, Failure | None, Failure | None]:
    """Outcome, the failure of the start, and how an engine that had become ready ended by itself."""
    if posted is not None and posted.outcome == "failed":
        return "failed", posted.failure, None
    leaving, over = story.leaving_at, run.ended_at
    asked_to_end = leaving is not None and (over is None or over >= leaving - CUT)
    if Mark.T9 in marks:
        if posted is not None and posted.ended is not None:
            return "ready", None, posted.ended
        return "ready", None, _end_of_ready(story, run, asked_to_end=asked_to_end)
    if over is not None and not asked_to_end:
        return "failed", causes.ended(story, run), None
    if run is not story.current and story.runs:
        return "failed", causes.ended(story, run), None
    if story.pod.phase == "Failed":
        return "failed", causes.trouble(story), None
    if leaving is None:
        return None, None, None
    # Taken away before it was ready: by whoever wanted it no more, unless something had kept it from becoming so.
    why = causes.disrupted(story) or causes.trouble(story) or causes.deadline_passed(workloads, story)
    return ("cancelled", None, None) if why is None else ("failed", why, None)


def _end_of_ready(story: PodStory, run: Run, *, asked_to_end: bool) -> Failure | None:
    if asked_to_end and story.pod.phase != "Failed":
        return causes.disrupted(story)
    if run.ended_at is not None or run is not story.current:
        return causes.died_serving(story, run)
    return causes.trouble(story) if story.pod.phase == "Failed" else None


def _teaches(story: PodStory, run: Run, posted: StartRecord | None) -> bool:
    """Whether T9 is that of this very start.

    A pod that was Ready when first seen may have been so before. After a restart Kubernetes' Ready proves nothing in
    Knative: queue-proxy ran on, and is Ready until its next probe fails (recorded in died_serving: 0 s for 1 s).
    """
    if posted is not None and Mark.T9 in posted.marks:
        return True
    return run.witnessed and run.index == 0


def _times(story: PodStory, run: Run, skew_s: float | None, *, teaches: bool) -> PodTimes:
    pod, last = story.pod, run is story.current or not story.runs
    first = run.index == 0
    success = story.first_success_at
    return PodTimes(
        uid=pod.uid,
        name=pod.name,
        restart=run.index,
        teaches=teaches,
        revision=pod.revision,
        node=pod.node,
        image=pod.engine.image,
        image_bytes=story.pull.size_bytes if first and story.pull is not None else None,
        created_at=pod.created_at,
        ready_at=run.ready_at,
        first_success_at=success if success is not None and run_of(story, success) == run.index else None,
        leaving_at=pod.leaving_at if last else None,
        gone_at=story.gone_at if last else None,
        skew_s=skew_s,
    )
