import time
from datetime import UTC, datetime

import pytest

from activator_ext.adapters.knative.objects import Held, Route, Routed, Scaled, Scheme, deployment_of
from activator_ext.adapters.knative.plan import Seen, Step, plan
from activator_ext.adapters.kubernetes.resource import Key
from activator_ext.core.model import ServiceId

NOW = datetime(2026, 11, 30, 9, tzinfo=UTC)
COUNT = 10_000


@pytest.mark.prove
def test_a_round_over_ten_thousand_services() -> None:
    services, revisions, replicas, floors = {}, {}, {}, {}
    for n in range(COUNT):
        service = ServiceId("team-a", f"chat-{n}")
        name = Key("team-a", f"chat-{n}-predictor-00001")
        held = Held("pilotlight/was=0", 0, NOW) if n % 2 else None
        services[Key("team-a", f"chat-{n}-predictor")] = Routed(
            Key("team-a", f"chat-{n}-predictor"), service, name.name, (Route(name.name, 100, latest=True),)
        )
        revisions[name] = Scaled(name, f"uid-{n}", service, 1 if held else 0, 3, held)
        replicas[deployment_of(name)] = 1 if held else 0
        if n % 4 != 1:
            floors[service] = 1
    begun = time.process_time()
    planned = plan(NOW, floors, Seen(services, revisions, {}, replicas), Scheme.REVISION, {})
    took_s = time.process_time() - begun
    steps = [write.step for write in planned.writes]
    print(f"a round over {COUNT} services, {len(floors)} floors: {took_s * 1000:.0f} ms, {len(steps)} writes planned")
    assert (steps.count(Step.RAISE), steps.count(Step.RESTORE)) == (COUNT // 2, COUNT // 4)
