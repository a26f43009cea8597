"""Which part of its start a pod is in."""

import pytest

from activator_ext.adapters.starts import story
from activator_ext.adapters.starts.stories import Stories
from activator_ext.adapters.starts.story import PodStory
from activator_ext.adapters.starts.under_way import stage
from activator_ext.core.model import ServiceId
from runtime.contract import Mark, PodStage, Stage
from tests.unit.adapters.starts.build import (
    SCHEDULED,
    UID,
    at,
    condition,
    ended,
    event,
    pod,
    posted,
    pulled,
    running,
    told,
    waiting,
)

NOT_READY = condition("Ready", "False", 0)
MADE = pod(waiting("ContainerCreating"), SCHEDULED)
STARTED = pod(running(20), SCHEDULED, NOT_READY)
UNDER_WAY = posted(20, marks={Mark.T0: 0, Mark.T4: 1})


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(told(pod(None, node=None)), PodStage.SCHEDULE, id="no node yet"),
        pytest.param(
            told(pod(None, node=None), event("TriggeredScaleUp", "", 2, container=None)),
            PodStage.NODE_PROVISION,
            id="a node is being made",
        ),
        pytest.param(told(MADE), PodStage.POD_SETUP, id="sandbox and volumes"),
        pytest.param(
            told(pod(waiting("PodInitializing"), SCHEDULED, inits={"state": running(2)})),
            PodStage.INIT_CONTAINERS,
            id="init",
        ),
        pytest.param(told(MADE, event("Pulling", "", 2)), PodStage.IMAGE_PULL, id="pulling"),
        pytest.param(
            told(MADE, event("Pulling", "", 2, container="queue-proxy")), PodStage.POD_SETUP, id="a sidecar's image"
        ),
        pytest.param(told(MADE, event("Pulling", "", 2), pulled(19)), PodStage.CONTAINER_START, id="pulled"),
        pytest.param(told(STARTED), None, id="its engine, of which nobody tells"),
        pytest.param(
            story.with_posted(told(STARTED), [UNDER_WAY], Stage.COMPILE), Stage.COMPILE, id="its engine tells"
        ),
        pytest.param(story.with_posted(told(STARTED), [posted(20)], None), None, id="it is ready"),
        pytest.param(
            story.with_posted(told(STARTED, pod(ended(20, 30), SCHEDULED)), [UNDER_WAY], Stage.COMPILE),
            PodStage.RESTART_WAIT,
            id="what it told ended with its container",
        ),
        pytest.param(
            told(STARTED, pod(waiting("CrashLoopBackOff"), SCHEDULED, last=ended(20, 30))),
            PodStage.RESTART_WAIT,
            id="loop",
        ),
        pytest.param(
            story.with_posted(
                told(STARTED, pod(running(40), SCHEDULED, restarts=1, last=ended(20, 30))), [UNDER_WAY], Stage.COMPILE
            ),
            None,
            id="what it told was of the run before",
        ),
        pytest.param(told(pod(None, SCHEDULED, deleted=5)), None, id="leaves"),
        pytest.param(story.gone(told(MADE), at(9)), None, id="gone"),
        pytest.param(told(pod(None, SCHEDULED, phase="Failed", reason="Evicted")), None, id="evicted"),
    ],
)
def test_stage(seen: PodStory, expected: Stage | PodStage | None) -> None:
    assert stage(seen) == expected


def test_a_service_tells_it_of_the_replicas_on_their_way() -> None:
    kept = Stories()
    kept.pod(STARTED)
    kept.posted(UID, [UNDER_WAY], Stage.WEIGHT_LOAD)
    chat = ServiceId("team-a", "chat")
    assert kept.of(chat, at(50)).stages == {"team-a/chat/chat-1-abc": Stage.WEIGHT_LOAD}
    kept.posted(UID, [posted(20)])
    assert kept.of(chat, at(90)).stages == {}
