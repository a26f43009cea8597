"""Objects as the API server gives them, as small as a test needs them. Times are seconds after `NOON`."""

from datetime import UTC, datetime, timedelta
from typing import Any

from activator_ext.adapters.starts import objects, story
from activator_ext.adapters.starts.objects import Event, Node, Pod, Workload
from activator_ext.adapters.starts.story import PodStory
from runtime.contract import Mark, StartKind, StartRecord

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
UID = "uid-1"
Json = dict[str, Any]


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def text(seconds: float, *, exact: bool = False) -> str:
    moment = at(seconds)
    return (moment if exact else moment.replace(microsecond=0)).isoformat().replace("+00:00", "Z")


def condition(kind: str, status: str, since: float, reason: str = "", message: str = "") -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": text(since), "reason": reason, "message": message}


def running(since: float) -> Json:
    return {"running": {"startedAt": text(since)}}


def ended(since: float, until: float, code: int = 1, reason: str = "Error", message: str = "") -> Json:
    told = {"startedAt": text(since), "finishedAt": text(until), "exitCode": code, "reason": reason, "message": message}
    return {"terminated": told}


def waiting(reason: str, message: str = "") -> Json:
    return {"waiting": {"reason": reason, "message": message}}


def pod(
    state: Json | None = None,
    *conditions: Json,
    restarts: int = 0,
    last: Json | None = None,
    created: float = 0.0,
    deleted: float | None = None,
    grace_s: int = 30,
    node: str | None = "node-0",
    limits: Json | None = None,
    selector: Json | None = None,
    inits: Json | None = None,
    revision: str | None = "chat-1",
    uid: str = UID,
    name: str = "chat-1-abc",
    **status: Any,
) -> Pod:
    meta: Json = {
        "name": name,
        "namespace": "team-a",
        "uid": uid,
        "creationTimestamp": text(created),
        "labels": {objects.SERVICE_LABEL: "chat", objects.REVISION_LABEL: revision},
    }
    if deleted is not None:
        meta |= {"deletionTimestamp": text(deleted + grace_s), "deletionGracePeriodSeconds": grace_s}
    engine = {"name": "kserve-container", "image": "registry.example/vllm:1", "resources": {"limits": limits or {}}}
    spec: Json = {"containers": [{"name": "queue-proxy", "image": "queue"}, engine]}
    spec |= {"nodeName": node} if node is not None else {}
    told: Json = {"phase": "Pending", "conditions": list(conditions), **status}
    if state is not None:
        here = {"name": "kserve-container", "state": state, "lastState": last or {}, "restartCount": restarts}
        told["containerStatuses"] = [here]
    if inits is not None:
        spec["initContainers"] = [{"name": "storage-initializer", "image": "fetcher"}]
        told["initContainerStatuses"] = [{"name": "storage-initializer", "restartCount": 0, "lastState": {}, **inits}]
    if selector is not None:
        spec["nodeSelector"] = selector
    made = objects.pod({"metadata": meta, "spec": spec, "status": told})
    assert made is not None
    return made


SCHEDULED = condition("PodScheduled", "True", 0)


def event(
    reason: str,
    message: str = "",
    when: float = 0.0,
    *,
    exact: bool = False,
    count: int = 1,
    last: float | None = None,
    container: str | None = "kserve-container",
) -> Event:
    about = {"uid": UID, "fieldPath": f"spec.containers{{{container}}}" if container else ""}
    item: Json = {"metadata": {"creationTimestamp": text(when)}, "involvedObject": about, "reason": reason}
    item |= {"message": message, "count": count}
    if exact:
        return objects.event({**item, "eventTime": text(when, exact=True)})
    return objects.event({**item, "firstTimestamp": text(when), "lastTimestamp": text(when if last is None else last)})


def pulled(when: float, took: str = "12.3s", waited: str = "12.5s", size: int = 9_000) -> Event:
    said = f'Successfully pulled image "x" in {took} ({waited} including waiting). Image size: {size} bytes.'
    return event("Pulled", said, when)


def node(
    created: float,
    ready: float | None,
    name: str = "node-0",
    *,
    images: tuple[str, ...] = (),
    gpus: int = 8,
    labels: Json | None = None,
    **spec: Any,
) -> Node:
    told = condition("Ready", "True" if ready is not None else "False", ready if ready is not None else created)
    status = {"allocatable": {"nvidia.com/gpu": str(gpus)}, "conditions": [told], "images": [{"names": list(images)}]}
    meta = {"name": name, "creationTimestamp": text(created), "labels": labels or {}}
    return objects.node({"metadata": meta, "spec": spec, "status": status})


def workload(
    kind: str, *conditions: Json, replicas: int = 1, deadline_s: int | None = 600, revision: str = "chat-1"
) -> Workload:
    name = revision if kind != "Deployment" else f"{revision}-deployment"
    meta: Json = {"name": name, "namespace": "team-a", "uid": f"{kind}-{name}", "creationTimestamp": text(0)}
    meta["labels"] = {objects.SERVICE_LABEL: "chat", objects.REVISION_LABEL: revision}
    spec = {"replicas": replicas, "progressDeadlineSeconds": deadline_s}
    made = objects.workload(kind, {"metadata": meta, "spec": spec, "status": {"conditions": list(conditions)}})
    assert made is not None
    return made


def told(*seen: Pod | Event | Node) -> PodStory:
    """A story from what was seen, in this order; the first is a pod."""
    first, *rest = seen
    assert isinstance(first, Pod)
    made = story.begun(first)
    for each in rest:
        if isinstance(each, Pod):
            made = story.with_pod(made, each)
        elif isinstance(each, Event):
            made = story.with_event(made, each)
        else:
            made = story.with_node(made, each)
    return made


def posted(begun: float, **more: Any) -> StartRecord:
    """A start as the pod's own host tells it, ready a minute after it began unless `marks` say otherwise."""
    marks = {Mark.T0: 0.0, Mark.T1: 0.1, Mark.T2: 0.1, Mark.T3: 2.0, Mark.T4: 2.1, Mark.T8: 59.0, Mark.T9: 60.0}
    marks = more.pop("marks", marks)
    values: Json = {
        "id": f"host-{begun}-1",
        "service": "team-a/chat",
        "replica": "team-a/chat/0",
        "kind": StartKind.FORK,
    }
    values |= {"outcome": "ready" if Mark.T9 in marks else None, **more}
    return StartRecord(**values, marks={mark: at(begun + seconds) for mark, seconds in marks.items()})
