"""What is kept of the API server's objects to tell of starts: plain dicts in, frozen values out.

Nothing here judges. What an object does not say is None; a time without a fraction was cut to its second.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from activator_ext.core.model import ServiceId

Json = Mapping[str, Any]
SERVICE_LABEL = "serving.kserve.io/inferenceservice"
REVISION_LABEL = "serving.knative.dev/revision"
ENGINES = ("kserve-container", "main")
"""The container that holds the engine, by the names that InferenceService and LLMInferenceService give it."""
CUT = timedelta(seconds=1)
"""By how much most of Kubernetes' times may be too early: they are whole seconds, cut and not rounded."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; `at`: since when it has its status."""

    type: str
    status: str
    at: datetime | None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a container: restart `index`, from its start to its end. `ready_at`: its pod was Ready with it.

    `witnessed` false: it was over, or Ready, when first seen; nobody knows whether that was its first readiness.
    """

    index: int
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    ready_at: datetime | None = None
    witnessed: bool = True


@dataclass(frozen=True, slots=True)
class Container:
    """One container as the kubelet reports it now. `runs`: the one under way and the last one that ended.

    `devices`: the whole ones that it asks for, such as `nvidia.com/gpu`.
    """

    name: str
    image: str
    memory_limit: str | None = None
    devices: Mapping[str, int] = field(default_factory=dict)
    waiting: str = ""
    waiting_message: str = ""
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod. `leaving_at`: when its deletion was asked for; it stays while it drains."""

    uid: str
    name: str
    service: ServiceId
    revision: str | None
    created_at: datetime
    leaving_at: datetime | None
    node: str | None
    phase: str
    reason: str
    message: str
    conditions: Mapping[str, Condition]
    node_selector: Mapping[str, str]
    engine: Container
    before: tuple[Container, ...]
    beside: tuple[Container, ...]

    def is_true(self, kind: str) -> Condition | None:
        """The condition of that type if it is True."""
        found = self.conditions.get(kind)
        return found if found is not None and found.status == "True" else None


@dataclass(frozen=True, slots=True)
class Event:
    """One Kubernetes Event about an object; repeated ones are one with a count. `container`: the one it is about."""

    about: str
    reason: str
    message: str
    first_at: datetime
    last_at: datetime
    count: int
    container: str | None


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `ready_at`, `unready_at`: since when it is Ready, or is not. `images`: what its kubelet lists."""

    name: str
    created_at: datetime
    ready_at: datetime | None
    unready_at: datetime | None
    schedulable: bool
    labels: Mapping[str, str]
    resources: Mapping[str, str]
    images: frozenset[str]


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment, PodAutoscaler or Revision of a service: what it says. `wanted`: a Deployment's replicas."""

    kind: str
    name: str
    service: ServiceId
    revision: str | None
    created_at: datetime
    wanted: int
    deadline_s: float | None
    conditions: Mapping[str, Condition]


def instant(text: str | None) -> datetime | None:
    """An aware instant; None for none."""
    return None if text is None else datetime.fromisoformat(text)


def service_of(item: Json) -> ServiceId | None:
    """The InferenceService that an object belongs to by its label."""
    meta = item["metadata"]
    name = (meta.get("labels") or {}).get(SERVICE_LABEL)
    return None if name is None else ServiceId(meta["namespace"], name)


def pod(item: Json) -> Pod | None:
    """A pod of an InferenceService; None: it is of none."""
    service = service_of(item)
    if service is None:
        return None
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    containers = _containers(spec.get("containers"), status.get("containerStatuses"))
    engine = next((each for each in containers if each.name in ENGINES), containers[0])
    leaving = instant(meta.get("deletionTimestamp"))
    if leaving is not None:
        # The API server writes down the end of the grace, not the moment of asking.
        leaving -= timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
    return Pod(
        uid=meta["uid"],
        name=meta["name"],
        service=service,
        revision=(meta.get("labels") or {}).get(REVISION_LABEL),
        created_at=datetime.fromisoformat(meta["creationTimestamp"]),
        leaving_at=leaving,
        node=spec.get("nodeName"),
        phase=status.get("phase", "Pending"),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        conditions=_conditions(status),
        node_selector=spec.get("nodeSelector") or {},
        engine=engine,
        before=_containers(spec.get("initContainers"), status.get("initContainerStatuses")),
        beside=tuple(each for each in containers if each is not engine),
    )


def event(item: Json) -> Event:
    """An Event of either API; one without any time is dated by its object's creation."""
    made = datetime.fromisoformat(item["metadata"]["creationTimestamp"])
    exact, series = instant(item.get("eventTime")), item.get("series") or {}
    first = exact or instant(item.get("firstTimestamp")) or made
    last = instant(series.get("lastObservedTime")) or instant(item.get("lastTimestamp")) or first
    about = item["involvedObject"]
    path = about.get("fieldPath") or ""
    _, _, container = path.partition("{")
    return Event(
        about=about.get("uid", ""),
        reason=item.get("reason") or "",
        message=item.get("message") or "",
        first_at=first,
        last_at=max(first, last),
        count=series.get("count") or item.get("count") or 1,
        container=container.removesuffix("}") or None,
    )


def node(item: Json) -> Node:
    """A node."""
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    made = datetime.fromisoformat(meta["creationTimestamp"])
    ready = _conditions(status).get("Ready")
    since = made if ready is None or ready.at is None else ready.at
    is_ready = ready is not None and ready.status == "True"
    return Node(
        name=meta["name"],
        created_at=made,
        ready_at=since if is_ready else None,
        unready_at=None if is_ready else since,
        schedulable=not spec.get("unschedulable"),
        labels=meta.get("labels") or {},
        resources=status.get("allocatable") or {},
        images=frozenset(name for image in status.get("images") or () for name in image.get("names") or ()),
    )


def workload(kind: str, item: Json) -> Workload | None:
    """A Deployment, PodAutoscaler or Revision (`kind`) of an InferenceService; None: it is of none."""
    service = service_of(item)
    if service is None:
        return None
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    revision = meta["name"] if kind == "Revision" else (meta.get("labels") or {}).get(REVISION_LABEL)
    return Workload(
        kind=kind,
        name=meta["name"],
        service=service,
        revision=revision,
        created_at=datetime.fromisoformat(meta["creationTimestamp"]),
        # A Deployment that says nothing wants one; the others want nothing by themselves.
        wanted=spec.get("replicas", 1) if kind == "Deployment" else 0,
        deadline_s=spec.get("progressDeadlineSeconds"),
        conditions=_conditions(status),
    )


def _conditions(status: Json) -> Mapping[str, Condition]:
    return {
        each["type"]: Condition(
            type=each["type"],
            status=each.get("status", "Unknown"),
            at=instant(each.get("lastTransitionTime")),
            reason=each.get("reason") or "",
            message=each.get("message") or "",
        )
        for each in status.get("conditions") or ()
    }


def _containers(specs: Iterable[Json] | None, statuses: Iterable[Json] | None) -> tuple[Container, ...]:
    told = {each["name"]: each for each in statuses or ()}
    return tuple(_container(each, told.get(each["name"], {})) for each in specs or ())


def _container(spec: Json, status: Json) -> Container:
    state, last = status.get("state") or {}, status.get("lastState") or {}
    waiting = state.get("waiting") or {}
    limits = (spec.get("resources") or {}).get("limits") or {}
    return Container(
        name=spec["name"],
        image=spec.get("image", ""),
        memory_limit=limits.get("memory"),
        # Extended resources have a domain in their name and are whole numbers; huge pages have none.
        devices={name: int(count) for name, count in limits.items() if "/" in name and str(count).isdecimal()},
        waiting=waiting.get("reason", ""),
        waiting_message=waiting.get("message", ""),
        runs=_runs(status.get("restartCount", 0), state, last),
    )


def _runs(restarts: int, state: Json, last: Json) -> tuple[Run, ...]:
    """`lastState` is the run before the one that runs or has just ended; while the container waits, the last one."""
    now = state.get("running") or state.get("terminated")
    ended = last.get("terminated")
    runs = []
    if ended is not None and (before := restarts - 1 if now else restarts) >= 0:
        runs.append(_run(before, ended))
    if now is not None:
        runs.append(_run(restarts, now))
    return tuple(runs)


def _run(index: int, told: Json) -> Run:
    return Run(
        index=index,
        started_at=instant(told.get("startedAt")),
        ended_at=instant(told.get("finishedAt")),
        exit_code=told.get("exitCode"),
        reason=told.get("reason") or "",
        message=told.get("message") or "",
    )
