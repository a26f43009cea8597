"""Keeps the stories of all pods that are or were, and answers for a service: its starts, replicas, failures.

Each change of an object comes in once, alone; an answer is made anew only for the services that something changed of.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from activator_ext.adapters.starts import causes, story, under_way, workloads
from activator_ext.adapters.starts.kinds import of_next
from activator_ext.adapters.starts.objects import Event, Node, Pod, Workload
from activator_ext.adapters.starts.records import NOBODY, Wanted, records
from activator_ext.adapters.starts.replicas import GIVE_UP_S, replica, replicas
from activator_ext.adapters.starts.story import PodStory
from activator_ext.core.model import ReplicaView, ServiceId, StartKind, Warmth
from runtime.contract import Failure, FailureCause, PodStage, Stage, StartRecord

KEPT_GONE = timedelta(minutes=10)
"""How long a pod that is gone can still be asked about: late Events and reports are taken in."""
EARLY = 1000
"""Pods of which something is told before they themselves are seen; the oldest are forgotten first."""
EARLY_EACH = 50
"""Words kept of each of them, the newest: most are of pods that are none of ours, and will never be seen."""
EARLY_POSTS = 100
"""Reports kept of pods that are not seen yet: any pod with a token may post, and a report is large."""
SETTLE = timedelta(seconds=2)
"""From a container's end to the Event that says why the kubelet ended it: until then another cause may be told."""
SAME = timedelta(hours=1)
"""What a Deployment, PodAutoscaler or Revision says so soon after a pod's failure is that failure, in fewer words."""
_Change = Callable[[PodStory], PodStory]


@dataclass(frozen=True, slots=True)
class ServiceStarts:
    """What is known of one service's starts at one instant.

    `trouble`: what keeps a start of it from going on now, be it only the wait for a node. `last_failure`: the newest of
    a start or engine, also of pods that are gone; it stays until the next one. `leaving`: pods that drain and keep
    their GPUs though no replicas any more. `stages`: what each replica's start is in now, by its id. `next_kind`: how
    the next start would begin; None: no pod was ever seen.
    """

    starts: tuple[StartRecord, ...] = ()
    replicas: tuple[ReplicaView, ...] = ()
    trouble: Failure | None = None
    last_failure: Failure | None = None
    leaving: int = 0
    stages: Mapping[str, Stage | PodStage] = field(default_factory=dict)
    next_kind: StartKind | None = None


class Stories:
    """Every pod's story, by UID, and every service's Deployments, PodAutoscalers and Revisions."""

    def __init__(self) -> None:
        self._stories: dict[str, PodStory] = {}
        self._of: dict[ServiceId, dict[str, None]] = {}
        self._early: OrderedDict[str, deque[_Change]] = OrderedDict()
        self._early_posts: OrderedDict[str, tuple[tuple[StartRecord, ...], Stage | None]] = OrderedDict()
        self._nodes: dict[str, Node] = {}
        self._workloads: dict[ServiceId, dict[tuple[str, str], Workload]] = {}
        self._wanted: dict[str, Wanted] = {}
        self._asked: dict[ServiceId, Wanted] = {}
        self._failures: dict[ServiceId, Failure] = {}
        self._newest: dict[ServiceId, Pod] = {}

    # What comes in.

    def pod(self, pod: Pod) -> None:
        """A pod was seen."""
        known = self._stories.get(pod.uid)
        if known is None:
            self._of.setdefault(pod.service, {})[pod.uid] = None
            # What was wanted when it came is what it came for; a later wish is another pod's.
            self._wanted[pod.uid] = self._asked.get(pod.service, NOBODY)
            made = story.begun(pod)
            for change in self._early.pop(pod.uid, ()):
                made = change(made)
            if (report := self._early_posts.pop(pod.uid, None)) is not None:
                made = story.with_posted(made, *report)
        else:
            made = story.with_pod(known, pod)
        node = self._nodes.get(pod.node) if pod.node is not None else None
        self._stories[pod.uid] = made if node is None else story.with_node(made, node)

    def pod_gone(self, uid: str, at: datetime) -> None:
        """A pod is not there any more, since `at` at the latest."""
        self._change(uid, lambda known: story.gone(known, at))

    def event(self, event: Event) -> None:
        """An Event about a pod, maybe one that is not seen yet."""
        self._change(event.about, lambda known: story.with_event(known, event))

    def posted(self, uid: str, starts: Iterable[StartRecord], stage: Stage | None = None) -> None:
        """What the pod of that UID, proven by its token, says of its starts; `stage` is the one under way."""
        told, known = tuple(starts), self._stories.get(uid)
        if known is not None:
            self._stories[uid] = story.with_posted(known, told, stage)
            return
        # Each report is whole: of a pod that is not seen yet, and may never be, the last one is enough.
        self._early_posts[uid] = told, stage
        self._early_posts.move_to_end(uid)
        if len(self._early_posts) > EARLY_POSTS:
            self._early_posts.popitem(last=False)

    def answered(self, uid: str, at: datetime) -> None:
        """The pod answered a request."""
        self._change(uid, lambda known: story.with_success(known, at))

    def node(self, node: Node) -> None:
        """A node was seen; pods that are on it already learn of it."""
        self._nodes[node.name] = node
        for uid, known in self._stories.items():
            if known.pod.node == node.name:
                self._stories[uid] = story.with_node(known, node)

    def node_gone(self, name: str, at: datetime) -> None:
        """A node is not there any more, since `at` at the latest; the API keeps its pods a while longer."""
        self._nodes.pop(name, None)
        for uid, known in self._stories.items():
            if known.pod.node == name and known.gone_at is None:
                self._stories[uid] = story.node_gone(known, at)

    def workload(self, workload: Workload) -> None:
        """A Deployment, PodAutoscaler or Revision was seen."""
        self._workloads.setdefault(workload.service, {})[workload.kind, workload.name] = workload

    def workload_gone(self, workload: Workload) -> None:
        """It is not there any more."""
        self._workloads.get(workload.service, {}).pop((workload.kind, workload.name), None)

    def wanted(self, service: ServiceId, wanted: Wanted | None) -> None:
        """More replicas than there are were asked for; None: nothing is wanted any more, or all that was is there."""
        if wanted is None:
            self._asked.pop(service, None)
        else:
            self._asked[service] = wanted

    # What goes out.

    @property
    def nodes(self) -> Sequence[Node]:
        """All nodes."""
        return tuple(self._nodes.values())

    def of(self, service: ServiceId, now: datetime, *, current: str | None = None, running: int = 0) -> ServiceStarts:
        """What is known of one service; `current` and `running` as `replicas` takes them."""
        objects = tuple(self._workloads.get(service, {}).values())
        deployments = [each for each in objects if each.kind == "Deployment"]
        told = sorted((self._stories[uid] for uid in self._of.get(service, ())), key=lambda each: each.pod.created_at)
        made = [(each, records(each, self._wanted[each.pod.uid], objects)) for each in told]
        views = [(each, replica(each, starts, now, _give_up_s(each, deployments))) for each, starts in made]
        starts = tuple(start for _, each in made for start in each)
        troubles = [
            (trouble, view)
            for each, view in views
            if view is not None and (trouble := causes.trouble(each)) is not None
        ]
        trouble = max((failure for failure, _ in troubles), key=lambda failure: failure.at, default=None)
        # What may still pass by itself, as the wait for a node that is being made, has failed nothing yet.
        failing = [failure for failure, view in troubles if view.warmth is not Warmth.WARMING]
        return ServiceStarts(
            starts=starts,
            replicas=replicas(views, deployments, current=current, running=running),
            trouble=trouble,
            last_failure=self._last_failure(service, starts, failing, objects),
            leaving=sum(each.pod.leaving_at is not None and each.gone_at is None for each in told),
            stages={
                view.id: stage
                for each, view in views
                if view is not None and view.warmth is Warmth.WARMING and (stage := under_way.stage(each)) is not None
            },
            next_kind=self._next_kind(service, told),
        )

    def _last_failure(
        self,
        service: ServiceId,
        starts: Iterable[StartRecord],
        failing: Iterable[Failure],
        objects: Iterable[Workload],
    ) -> Failure | None:
        of_starts = [failure for each in starts for failure in (each.failure, each.ended) if failure is not None]
        known = self._failures.get(service)
        of_objects = workloads.failures(objects)
        if self._living(service):
            # A pod that is there tells more, and it may still come up.
            of_objects = tuple(each for each in of_objects if each.cause is FailureCause.POD_REFUSED)
        for failure in (*sorted((*of_starts, *failing), key=lambda each: each.at), *of_objects):
            if known is None or failure.at >= known.at + _later(failure):
                known = failure
        # That no node has room may pass by itself: what an object tells of it before the pod is seen is not kept.
        if known is not None and not ("object" in known.numbers and known.cause is FailureCause.UNSCHEDULABLE):
            self._failures[service] = known
        return known

    def _next_kind(self, service: ServiceId, told: Sequence[PodStory]) -> StartKind | None:
        if told:
            self._newest[service] = told[-1].pod
        pod = self._newest.get(service)
        return None if pod is None else StartKind(of_next(self._nodes.values(), pod).value)

    def _living(self, service: ServiceId) -> bool:
        return any(self._stories[uid].leaving_at is None for uid in self._of.get(service, ()))

    def forget(self, now: datetime) -> None:
        """Let go of pods that are gone for `KEPT_GONE`; their records are in the history."""
        for uid, known in list(self._stories.items()):
            if known.gone_at is not None and now - known.gone_at >= KEPT_GONE:
                del self._stories[uid], self._wanted[uid]
                of_service = self._of[known.pod.service]
                del of_service[uid]
                if not of_service:
                    del self._of[known.pod.service]

    def service_gone(self, service: ServiceId) -> None:
        """The service was deleted."""
        self._asked.pop(service, None)
        self._failures.pop(service, None)
        self._newest.pop(service, None)
        self._workloads.pop(service, None)

    def _change(self, uid: str, change: _Change) -> None:
        known = self._stories.get(uid)
        if known is not None:
            self._stories[uid] = change(known)
            return
        self._early.setdefault(uid, deque(maxlen=EARLY_EACH)).append(change)
        if len(self._early) > EARLY:
            self._early.popitem(last=False)


def _later(failure: Failure) -> timedelta:
    """By how much it must be later than the one known to be another: objects tell of a pod's failure after it."""
    told_by_object = "object" in failure.numbers and failure.cause is not FailureCause.POD_REFUSED
    return SAME if told_by_object else timedelta(0)


def settled(record: StartRecord, now: datetime) -> bool:
    """Whether a record that is over will keep the cause that it has now."""
    over = record.failure or record.ended
    return over is None or now - over.at >= SETTLE


def _give_up_s(known: PodStory, deployments: Iterable[Workload]) -> float:
    deadlines = (each.deadline_s for each in deployments if each.revision == known.pod.revision)
    return next((each for each in deadlines if each is not None), GIVE_UP_S)
