"""Starts on a live control plane (fake pods do): its own objects, read as they are now, become records and failures."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.resource import DEPLOYMENTS, EVENTS, PODS, Key, Resource
from activator_ext.adapters.kubernetes.watched import Watched
from activator_ext.adapters.starts import objects
from activator_ext.adapters.starts.feed import EVENT_FIELDS, POD_SELECTOR, Feed
from activator_ext.adapters.starts.records import Wanted
from activator_ext.adapters.starts.stories import ServiceStarts, Stories
from activator_ext.core.model import ServiceId, Warmth
from runtime.contract import FailureCause, Mark, PodStage, StartKind
from tests.cluster.control_plane import ControlPlane, inference_service
from tests.serving import wait_for

WORKLOADS = {
    "Deployment": "deployments.apps",
    "PodAutoscaler": "podautoscalers.autoscaling.internal.knative.dev",
    "Revision": "revisions.serving.knative.dev",
}


class Looker:
    """Reads everything of a namespace, again and again, as list calls after a lost watch would."""

    def __init__(self, plane: ControlPlane, namespace: str, name: str) -> None:
        self._plane, self._namespace = plane, namespace
        self.service = ServiceId(namespace, name)
        self.stories = Stories()
        self._uids: set[str] = set()

    def _list(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._plane.get("-n", self._namespace, kind)["items"]
        return found

    def look(self) -> ServiceStarts:
        for item in self._list("nodes"):
            self.stories.node(objects.node(item))
        for item in self._list("events"):
            self.stories.event(objects.event(item))
        seen = set()
        for item in self._list("pods"):
            pod = objects.pod(item)
            assert pod is not None, "KServe labels each pod"
            seen.add(pod.uid)
            self.stories.pod(pod)
        for uid in self._uids - seen:
            self.stories.pod_gone(uid, datetime.now(UTC))
        self._uids = seen
        for kind, resource in WORKLOADS.items():
            for item in self._list(resource):
                workload = objects.workload(kind, item)
                assert workload is not None, f"KServe's label reaches each {kind}"
                self.stories.workload(workload)
        return self.stories.of(self.service, datetime.now(UTC))

    def until(self, test: Callable[[ServiceStarts], bool], saying: str) -> ServiceStarts:
        last: list[ServiceStarts] = []

        def look() -> ServiceStarts | None:
            last[:] = [self.look()]
            return last[0] if test(last[0]) else None

        try:
            return wait_for(look, within_s=60, saying=saying)
        except AssertionError as error:
            raise AssertionError(f"{error}; last seen: {last}") from error


def chat(namespace: str, *, gpus: int = 0, deadline: str = "600s") -> dict[str, Any]:
    model = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"nvidia.com/gpu": str(gpus)}}}
    annotations = {"serving.knative.dev/progress-deadline": deadline}
    return inference_service(namespace, "chat", min_replicas=1, annotations=annotations, model=model if gpus else {})


def test_a_start_becomes_a_record(plane: ControlPlane, namespace: str) -> None:
    watched = Looker(plane, namespace, "chat")
    asked_at = datetime.now(UTC)
    watched.stories.wanted(watched.service, Wanted(written_at=asked_at, why="a test"))
    plane.apply(chat(namespace))
    watched.until(lambda seen: any(each.warmth is Warmth.WARMING for each in seen.replicas), "a replica on its way")
    seen = watched.until(lambda seen: any(each.outcome == "ready" for each in seen.starts), "a start that is ready")
    (start,) = seen.starts
    assert (start.marks[Mark.T0], start.why) == (asked_at, "a test")
    assert start.marks[Mark.T0] <= start.marks[Mark.T1] <= start.marks[Mark.T9]
    assert start.kind is StartKind.CACHED_NODE, "nothing is pulled on fake nodes"
    assert PodStage.POD_CREATE in {stage.stage for stage in start.stages}
    assert start.pod is not None
    assert start.pod.revision == "chat-predictor-00001"
    assert [each.warmth for each in seen.replicas] == [Warmth.WARM]
    assert (seen.trouble, seen.last_failure) == (None, None)


async def test_a_start_by_watches(plane: ControlPlane, namespace: str) -> None:
    """As a controller reads it: each kind by a watch of its own, nothing asked twice."""
    service = ServiceId(namespace, "chat")
    stories = Stories()
    feed = Feed(stories, lambda: datetime.now(UTC))
    news = asyncio.Event()

    def heard(tell: Callable[[Key], None]) -> Callable[[Key], None]:
        def changed(key: Key) -> None:
            tell(key)
            news.set()

        return changed

    async def until(test: Callable[[ServiceStarts], bool]) -> ServiceStarts:
        async with asyncio.timeout(60):
            while not test(seen := stories.of(service, datetime.now(UTC))):
                news.clear()
                await news.wait()
        return seen

    async with await Client.connect(plane.kubeconfig) as client, asyncio.TaskGroup() as group:
        pods = Watched(
            client,
            PODS,
            objects.pod,
            namespace=namespace,
            selector=POD_SELECTOR,
            changed=heard(lambda key: feed.pod(key, pods.objects)),
        )
        events = Watched(
            client,
            EVENTS,
            objects.event,
            namespace=namespace,
            fields=EVENT_FIELDS,
            changed=heard(lambda key: feed.event(key, events.objects)),
        )
        nodes = Watched(
            client,
            Resource("", "v1", "nodes", "Node"),
            objects.node,
            changed=heard(lambda key: feed.node(key, nodes.objects)),
        )
        deployments = Watched(
            client,
            DEPLOYMENTS,
            lambda item: objects.workload("Deployment", item),
            namespace=namespace,
            selector=POD_SELECTOR,
            changed=heard(lambda key: feed.workload("Deployment", key, deployments.objects)),
        )
        watches = [group.create_task(each.run()) for each in (pods, events, nodes, deployments)]
        await asyncio.gather(*(each.wait_synced() for each in (pods, events, nodes, deployments)))
        await asyncio.to_thread(plane.apply, chat(namespace))
        await until(lambda seen: any(each.warmth is Warmth.WARMING for each in seen.replicas))
        seen = await until(lambda seen: any(each.outcome == "ready" for each in seen.starts))
        assert [each.warmth for each in seen.replicas] == [Warmth.WARM]
        assert seen.starts[0].marks[Mark.T1].microsecond, "the scheduler's own Event, not the condition that is cut"
        await asyncio.to_thread(plane.kubectl, "delete", "-n", namespace, "inferenceservice", "chat")
        seen = await until(lambda seen: bool(seen.starts[0].pod and seen.starts[0].pod.gone_at))
        assert (seen.replicas, seen.starts[0].ended, seen.last_failure) == ((), None, None)
        assert sum(client.requests.values()) < 20, client.requests
        for each in watches:
            each.cancel()
    # The TLS connections of watches that were cancelled are shut in the loop's own time.
    await asyncio.sleep(0.3)


def test_no_gpu_is_named_counts_as_on_its_way_and_outlives_its_pod(plane: ControlPlane, namespace: str) -> None:
    watched = Looker(plane, namespace, "chat")
    plane.apply(chat(namespace, gpus=64))
    seen = watched.until(lambda seen: seen.trouble is not None, "trouble")
    assert seen.trouble is not None
    assert (seen.trouble.cause, seen.trouble.numbers["resource"]) == (FailureCause.UNSCHEDULABLE, "nvidia.com/gpu")
    assert [each.warmth for each in seen.replicas] == [Warmth.WARMING]
    assert seen.last_failure is None, "a node may still be added"
    plane.kubectl("delete", "-n", namespace, "inferenceservice", "chat")
    seen = watched.until(lambda seen: [each.outcome for each in seen.starts] == ["failed"], "the attempt over")
    assert seen.last_failure is not None
    assert seen.last_failure.cause is FailureCause.UNSCHEDULABLE
    assert json.dumps(seen.last_failure.model_dump(mode="json")), "it can be told in status, event and API"
