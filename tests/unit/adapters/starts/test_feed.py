"""Changes by key → stories: what went, what was made anew under an old name."""

from activator_ext.adapters.starts.feed import Feed
from activator_ext.adapters.starts.objects import Pod
from activator_ext.adapters.starts.stories import Stories
from activator_ext.core.model import ServiceId, Warmth
from runtime.contract import Mark, StartKind
from tests.unit.adapters.starts.build import SCHEDULED, UID, at, condition, event, node, pod, running, workload

CHAT = ServiceId("team-a", "chat")
KEY = ("team-a", "chat-1-abc")


def feed() -> tuple[Feed, Stories]:
    stories = Stories()
    return Feed(stories, lambda: at(500)), stories


def test_a_pod_comes_changes_and_goes() -> None:
    telling, stories = feed()
    kept: dict[object, Pod] = {KEY: pod(None)}
    telling.pod(KEY, kept)
    kept[KEY] = pod(running(20), SCHEDULED, condition("Ready", "True", 70))
    telling.pod(KEY, kept)
    assert [each.warmth for each in stories.of(CHAT, at(100)).replicas] == [Warmth.WARM]
    del kept[KEY]
    telling.pod(KEY, kept)
    telling.pod(KEY, kept)
    seen = stories.of(CHAT, at(600))
    assert seen.replicas == ()
    assert seen.starts[0].pod is not None
    assert seen.starts[0].pod.gone_at == at(500)


def test_another_pod_under_the_same_name_is_another() -> None:
    telling, stories = feed()
    telling.pod(KEY, {KEY: pod(running(20), SCHEDULED, uid="old")})
    telling.pod(KEY, {KEY: pod(None, uid="new", created=400)})
    old, new = stories.of(CHAT, at(600)).starts
    assert (old.id, old.outcome) == ("old-0", "cancelled")
    assert (new.id, new.outcome) == ("new-0", None)


def test_events_nodes_and_workloads() -> None:
    telling, stories = feed()
    telling.pod(KEY, {KEY: pod(running(20), SCHEDULED)})
    telling.event("e", {"e": event("Scheduled", "", 0.5, exact=True)})
    telling.event("e", {})
    telling.node("node-0", {"node-0": node(3, 9)})
    telling.workload("Deployment", "d", {"d": workload("Deployment", replicas=2)})
    seen = stories.of(CHAT, at(30))
    assert (seen.starts[0].id, seen.starts[0].kind) == (f"{UID}-0", StartKind.NEW_NODE)
    assert seen.starts[0].marks[Mark.T1] == at(0.5)
    assert len(seen.replicas) == 2
    for _ in range(2):
        telling.workload("Deployment", "d", {})
        telling.node("node-0", {})
    assert len(stories.of(CHAT, at(30)).replicas) == 1
    assert stories.nodes == ()
