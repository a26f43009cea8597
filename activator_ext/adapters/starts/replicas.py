"""Pods and Deployments of one service become the core's replicas, so that `decide` sees what there is and will be.

A pod that waits for a node, an image or its container counts: it is capacity on its way, and another floor would not
make it come sooner. One that fails again and again, or that no node took for long, does not.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from activator_ext.adapters.starts import causes
from activator_ext.adapters.starts.objects import Workload
from activator_ext.adapters.starts.story import PodStory
from activator_ext.core.model import ReplicaView, Warmth
from runtime.contract import FailureCause, Mark, StartRecord

GIVE_UP_S = 600.0
"""How long a pod that no node takes counts as on its way: Knative's own progress deadline, where none is told."""
_SLOW_ONLY = (FailureCause.UNSCHEDULABLE, FailureCause.POD_CONFIG)
"""What may pass by itself: a GPU comes free, a volume is mounted at the third try."""
_LIVE = (Warmth.WARM, Warmth.BUSY, Warmth.WARMING)


def replica(story: PodStory, records: Sequence[StartRecord], now: datetime, give_up_s: float) -> ReplicaView | None:
    """One pod as a replica; None: it leaves or is over, and another takes its place if one is wanted.

    `records`: its starts, the newest last.
    """
    pod = story.pod
    if story.leaving_at is not None or pod.phase in ("Failed", "Succeeded"):
        return None
    name, last = f"{pod.service}/{pod.name}", records[-1]
    if story.node_lost_at is not None or pod.phase == "Unknown" or pod.reason == "NodeLost":
        return ReplicaView(name, Warmth.UNKNOWN, story.node_lost_at or _changed(story), last.marks.get(Mark.T9))
    run = story.current
    trouble = causes.trouble(story)
    if trouble is not None:
        slow = trouble.cause in _SLOW_ONLY and now - trouble.at < timedelta(seconds=give_up_s)
        if not slow:
            return ReplicaView(name, Warmth.FAILED, trouble.at)
    elif last.outcome == "ready" and last.ended is None:
        ready, ready_at = pod.conditions.get("Ready"), last.marks[Mark.T9]
        fell = run is not None and run.ready_at is not None and ready is not None and ready.status != "True"
        if fell and ready is not None:
            # It had been Ready and is no more, though it runs: nobody can tell whether it would answer.
            return ReplicaView(name, Warmth.UNKNOWN, ready.at or ready_at, ready_at)
        return ReplicaView(name, Warmth.WARM, ready_at, ready_at)
    return ReplicaView(name, Warmth.WARMING, last.marks.get(Mark.T0, pod.created_at))


def replicas(
    pods: Iterable[tuple[PodStory, ReplicaView | None]],
    deployments: Iterable[Workload],
    *,
    current: str | None = None,
    running: int = 0,
) -> tuple[ReplicaView, ...]:
    """The replicas of one service.

    `current`: the Revision that a floor is put on; pods of another one serve until it has as many, and are then none.
    `running`: requests being answered now; as many warm replicas are busy. What a Deployment wants and has no pod for
    yet is on its way, unless no pod may be made.
    """
    views = [(story.pod.revision, view) for story, view in pods if view is not None]
    new = [view for revision, view in views if current is None or revision == current]
    old = [view for revision, view in views if not (current is None or revision == current)]
    for each in deployments:
        if current is None or each.revision == current:
            new += _not_made(each, sum(revision == each.revision for revision, _ in views))
    serving = [view for view in new if view.warmth in _LIVE]
    return tuple(_busy([*new, *old[len(serving) :]], running))


def _not_made(deployment: Workload, made: int) -> list[ReplicaView]:
    refused = deployment.conditions.get("ReplicaFailure")
    warmth = Warmth.FAILED if refused is not None and refused.status == "True" else Warmth.WARMING
    since = refused.at if refused is not None and refused.at is not None else deployment.created_at
    names = (f"{deployment.service}/{deployment.name}-{number}" for number in range(made, deployment.wanted))
    return [ReplicaView(name, warmth, since) for name in names]


def _busy(views: list[ReplicaView], running: int) -> list[ReplicaView]:
    busy = []
    for view in views:
        if view.warmth is Warmth.WARM and running > 0:
            running -= 1
            view = ReplicaView(view.id, Warmth.BUSY, view.since, view.ready_at)  # noqa: PLW2901  (the same one, seen whole)
        busy.append(view)
    return busy


def _changed(story: PodStory) -> datetime:
    times = [each.at for each in story.pod.conditions.values() if each.at is not None]
    return max(times, default=story.pod.created_at)
