"""One pod's story: what was ever seen of it, kept while the API server forgets.

Container states overwrite one another, Events last an hour. Each look folds into the same frozen value; taking one
twice changes nothing, and the order in which pod, events and reports arrive does not matter.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from activator_ext.adapters.starts.objects import CUT, Event, Node, Pod, Run
from runtime.contract import Stage, StartRecord

_PULLED = re.compile(
    r"^Successfully pulled image .* in (\S+)(?: \((\S+) including waiting\))?(?:.*Image size: (\d+) bytes)?"
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|us|µs|ns|s)")
_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_SETUP_TROUBLE = ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "FailedPostStartHook")
_NODE_COMING = ("TriggeredScaleUp", "Nominated")
"""What cluster-autoscaler and Karpenter say of a pod for which they make a node."""
KEPT_RUNS = 8
"""Runs of one container that are remembered, the newest: a crash loop of days is told by its last ones."""
KEPT_POSTED = 8
"""Starts that a pod has told of, the newest, beside the first one of each run: as many as one report holds."""
_GENERATION = re.compile(r"-(\d+)$")


@dataclass(frozen=True, slots=True)
class Pull:
    """How a container's image came: `took_s` with the wait for other pulls; `present`: the node had it."""

    at: datetime
    took_s: float = 0.0
    pulled_s: float = 0.0
    size_bytes: int | None = None
    present: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """What an Event said, the last time."""

    at: datetime
    reason: str
    message: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class PodStory:
    """All that is known of one pod. `pod`: as last seen; `runs`: its engine's container, by restart.

    `kills`: what the kubelet said as it ended the engine's container by itself. `unscheduled`: why no node took it;
    `node`: the one that did, as it was then; `node_lost_at`: since when that one is silent.
    """

    pod: Pod
    runs: tuple[Run, ...] = ()
    scheduled_at: datetime | None = None
    set_up_at: datetime | None = None
    init_runs: tuple[tuple[str, Run], ...] = ()
    pulling_at: datetime | None = None
    pull: Pull | None = None
    unscheduled_since: datetime | None = None
    unscheduled: Told | None = None
    node_coming_at: datetime | None = None
    setup_trouble: Told | None = None
    kills: tuple[Told, ...] = ()
    node: Node | None = None
    node_lost_at: datetime | None = None
    gone_at: datetime | None = None
    first_success_at: datetime | None = None
    posted: tuple[StartRecord, ...] = ()
    posted_stage: Stage | None = None

    @property
    def leaving_at(self) -> datetime | None:
        """When its end was asked for or, unasked, seen."""
        return self.pod.leaving_at or self.gone_at

    @property
    def current(self) -> Run | None:
        """The newest run of its engine's container."""
        return self.runs[-1] if self.runs else None


def begun(pod: Pod) -> PodStory:
    """The story of a pod just seen. What happened before is known by its traces only."""
    story = with_pod(PodStory(pod), pod)
    last = story.current
    old = (run.index for run in story.runs if run.ready_at is not None or run is not last)
    unseen = frozenset(old)
    return replace(story, runs=tuple(replace(run, witnessed=run.index not in unseen) for run in story.runs))


def with_pod(story: PodStory, pod: Pod) -> PodStory:
    """The pod was seen again."""
    scheduled, set_up = pod.is_true("PodScheduled"), pod.is_true("PodReadyToStartContainers")
    waiting = pod.conditions.get("PodScheduled")
    unscheduled, since = story.unscheduled, story.unscheduled_since
    if waiting is not None and waiting.status == "False":
        since = since or waiting.at or pod.created_at
        if unscheduled is None or waiting.message:
            unscheduled = Told(waiting.at or pod.created_at, waiting.reason, waiting.message)
    inits = {(name, run.index): run for name, run in story.init_runs}
    inits |= {(each.name, run.index): run for each in pod.before for run in each.runs}
    return replace(
        story,
        pod=pod,
        runs=_with_runs(story.runs, pod),
        # The condition is cut to its second; the scheduler's Event, if it came, is exact and stands.
        scheduled_at=story.scheduled_at or (scheduled.at if scheduled is not None else None),
        set_up_at=story.set_up_at or (set_up.at if set_up is not None else None),
        init_runs=tuple((name, run) for (name, _), run in sorted(inits.items(), key=lambda pair: _begin(pair[1]))),
        unscheduled_since=since,
        unscheduled=unscheduled,
    )


def _begin(run: Run) -> float:
    return 0.0 if run.started_at is None else run.started_at.timestamp()


def _with_runs(known: tuple[Run, ...], pod: Pod) -> tuple[Run, ...]:
    runs = {run.index: run for run in known}
    for run in pod.engine.runs:
        before = runs.get(run.index)
        # An end that was told before stays: its place in the status is the next run's later.
        told = before if before is not None and before.ended_at is not None and run.ended_at is None else run
        if before is not None:
            told = replace(told, ready_at=before.ready_at, witnessed=before.witnessed)
        runs[run.index] = told
    if (ready := pod.is_true("Ready")) is not None and runs:
        last = max(runs)
        begun_at = runs[last].started_at
        if runs[last].ready_at is None and ready.at is not None and (begun_at is None or ready.at >= begun_at):
            runs[last] = replace(runs[last], ready_at=ready.at)
    return tuple(runs[index] for index in sorted(runs))[-KEPT_RUNS:]


def with_event(story: PodStory, event: Event) -> PodStory:
    """An Event about the pod. One of another container than the engine's tells nothing but trouble."""
    told = Told(event.last_at, event.reason, event.message, event.count)
    if event.reason == "Scheduled":
        return replace(story, scheduled_at=event.first_at)
    if event.reason == "FailedScheduling":
        since = min(story.unscheduled_since or event.first_at, event.first_at)
        newer = story.unscheduled is None or event.last_at >= story.unscheduled.at
        return replace(story, unscheduled_since=since, unscheduled=told if newer else story.unscheduled)
    if event.reason in _NODE_COMING:
        return replace(story, node_coming_at=min(story.node_coming_at or event.first_at, event.first_at))
    if event.reason in _SETUP_TROUBLE:
        known = story.setup_trouble
        newer = known is None or event.last_at >= known.at
        return replace(story, setup_trouble=replace(told, at=event.first_at)) if newer else story
    if event.container != story.pod.engine.name:
        return story
    if event.reason == "Pulling":
        return replace(story, pulling_at=min(story.pulling_at or event.first_at, event.first_at))
    if event.reason == "Pulled":
        # The first that is told is the one that the first run waited for; "present" is told again at each restart.
        pull = _pull(event)
        return story if story.pull is not None and story.pull.at <= pull.at else replace(story, pull=pull)
    if event.reason == "Killing" and "probe" in event.message:
        others = tuple(each for each in story.kills if each.message != event.message)
        return replace(story, kills=(*others, told))
    return story


def _pull(event: Event) -> Pull:
    match = _PULLED.match(event.message)
    if match is None:
        return Pull(event.first_at, present="already present" in event.message)
    pulled, waited, size = match.groups()
    pulled_s = seconds(pulled) or 0.0
    took_s = seconds(waited or "") or pulled_s
    return Pull(event.first_at, took_s, pulled_s, int(size) if size is not None else None)


def seconds(text: str) -> float | None:
    """A duration as Go prints it (`1m2.5s`, `300ms`); None: it is none."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNIT_S[unit] for number, unit in parts)


def with_node(story: PodStory, node: Node) -> PodStory:
    """The pod's node: kept as it was when it first was Ready with the pod on it, and whether it is so now."""
    kept = node if story.node is None or story.node.ready_at is None else story.node
    # One that has not been Ready yet has not lost the pod; one under which a container has run has been Ready.
    lost_at = node.unready_at if kept.ready_at is not None or story.runs else None
    return replace(story, node=kept, node_lost_at=lost_at)


def node_gone(story: PodStory, at: datetime) -> PodStory:
    """The pod's node is not in the API any more."""
    return story if story.node_lost_at is not None else replace(story, node_lost_at=at)


def with_posted(story: PodStory, records: Iterable[StartRecord], stage: Stage | None = None) -> PodStory:
    """What the pod itself says of its starts, in the order in which they began; a later word on one replaces it.

    `stage`: the one under way.
    """
    known = {record.id: record for record in story.posted} | {record.id: record for record in records}
    in_order = sorted(known.values(), key=lambda record: began(story, record))
    firsts = [record for record in in_order if generation(record) == 1][-KEPT_RUNS:]
    kept = {record.id for record in (*firsts, *in_order[-KEPT_POSTED:])}
    return replace(story, posted=tuple(each for each in in_order if each.id in kept), posted_stage=stage)


def with_success(story: PodStory, at: datetime) -> PodStory:
    """A request was answered by the pod at `at`."""
    return replace(story, first_success_at=min(story.first_success_at or at, at))


def gone(story: PodStory, at: datetime) -> PodStory:
    """The pod is not in the API any more; a container of it that was not seen to end ended with it."""
    return story if story.gone_at is not None else replace(story, gone_at=at)


def generation(posted: StartRecord) -> int | None:
    """Which start of its process it is, from 1 on, by the end of its id; None: its id says nothing."""
    match = _GENERATION.search(posted.id)
    return int(match.group(1)) if match is not None else None


def began(story: PodStory, posted: StartRecord) -> datetime:
    """When a start that the pod tells of began, by the pod's own clock."""
    return min(posted.marks.values(), default=story.pod.created_at)


def run_of(story: PodStory, at: datetime) -> int:
    """The restart in which something that the pod's own clock dated `at` happened."""
    begun_before = [run.index for run in story.runs if run.started_at is not None and run.started_at <= at + CUT]
    return begun_before[-1] if begun_before else 0


def killed_by_probe(story: PodStory, run: Run) -> Told | None:
    """What the kubelet said during this run as it ended it for its probe; None: it did not."""
    if run.ended_at is None:
        return None
    begun_at = run.started_at or story.pod.created_at
    near = [told for told in story.kills if begun_at <= told.at <= run.ended_at + CUT]
    return near[-1] if near else None
