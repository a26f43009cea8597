"""Lead times and observations from starts in a cluster."""

import pytest

from activator_ext.adapters.starts import story
from activator_ext.adapters.starts.records import Wanted, records
from activator_ext.adapters.starts.samples import lead_sample, observation
from activator_ext.adapters.starts.stories import ServiceStarts, Stories
from activator_ext.core.model import LeadSample, QueueView, ServiceId, ServiceObservation, StartKind, Warmth
from tests.unit.adapters.starts.build import SCHEDULED, UID, at, condition, ended, node, pod, pulled, running, told

CHAT = ServiceId("team-a", "chat")
STARTED = pod(running(20), SCHEDULED)
SERVING = pod(running(20), SCHEDULED, condition("Ready", "True", 70))


def test_a_start_teaches_its_lead_time() -> None:
    (start,) = records(told(STARTED, SERVING, pulled(19)), Wanted(written_at=at(-2)))
    assert lead_sample(start) == LeadSample(StartKind.COLD_NODE, 72, at(70))
    assert lead_sample(start, at(-100)) == LeadSample(StartKind.COLD_NODE, 170, at(70)), "failed tries before included"
    assert lead_sample(start, at(5)) == LeadSample(StartKind.COLD_NODE, 72, at(70)), "asked again meanwhile"


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(told(STARTED), id="under way"),
        pytest.param(told(STARTED, pod(ended(20, 30), SCHEDULED)), id="failed"),
        pytest.param(told(SERVING), id="Ready when first seen"),
        pytest.param(story.gone(told(STARTED), at(40)), id="cancelled"),
    ],
)
def test_what_teaches_nothing(seen: story.PodStory) -> None:
    assert lead_sample(records(seen)[-1]) is None


def test_what_decide_is_told() -> None:
    kept = Stories()
    sample = LeadSample(StartKind.NEW_NODE, 300, at(-999))
    queue = QueueView(seen_at=at(1), waiting=2)
    nothing = observation(kept.of(CHAT, at(1)), queue, [sample], StartKind.FORK)
    assert nothing == ServiceObservation((), queue, StartKind.FORK, (sample,))
    kept.node(node(-99, -90))
    kept.pod(SERVING)
    seen = observation(kept.of(CHAT, at(80)), None, [], StartKind.FORK)
    assert [each.warmth for each in seen.replicas] == [Warmth.WARM]
    assert (seen.queue, seen.next_kind) == (None, StartKind.COLD_NODE)
    kept.pod_gone(UID, at(90))
    kept.forget(at(9000))
    assert observation(kept.of(CHAT, at(9001)), None, [], StartKind.FORK).next_kind is StartKind.COLD_NODE
    kept.service_gone(CHAT)
    assert kept.of(CHAT, at(9002)) == ServiceStarts()
