"""What the API asks, answered by a real controller over a fake host."""

from datetime import datetime, timedelta

import pytest

from activator_ext.app.facade import Facade
from activator_ext.app.views import HoldRequest, InvalidRequest, UnknownService
from activator_ext.core.model import ServiceId
from tests.unit.app.bench import BEGIN, CHAT, Bench


async def no_portal() -> None:
    return None


@pytest.fixture
def facade(bench: Bench) -> Facade:
    return Facade(
        controller=bench.controller,
        history=bench.history,
        metrics=bench.metrics,
        clock=lambda: bench.now,
        portal_metrics=no_portal,
    )


def hold(**fields: object) -> HoldRequest:
    return HoldRequest.model_validate({"service": str(CHAT), "for_s": 600} | fields)


async def test_a_hold_is_decided_on(bench: Bench, facade: Facade) -> None:
    bench.requests()
    view = await facade.add_hold(hold(reason="a demo"), None)
    assert (view.state, view.until) == ("active", BEGIN + timedelta(minutes=10))
    await bench.tick()
    assert bench.host.orders[-1].replicas == 1
    assert await facade.release_hold(view.id)
    await bench.ready(40.0)
    await bench.tick()
    assert bench.host.orders[-1].replicas == 0
    assert not await facade.release_hold(view.id)


async def test_the_same_key_gives_the_same_hold(facade: Facade) -> None:
    first = await facade.add_hold(hold(), "key")
    assert await facade.add_hold(hold(), "key") == first
    with pytest.raises(InvalidRequest, match="key"):
        await facade.add_hold(hold(for_s=60), "key")
    assert len(facade.holds()) == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ready_by": BEGIN - timedelta(hours=1)}, "is past"),
        ({"ready_by": BEGIN + timedelta(days=400)}, "more than a year ahead"),
        ({"ready_by": datetime.max.replace(tzinfo=BEGIN.tzinfo)}, "more than a year ahead"),
        ({"replicas": 2}, "bounds.max of demo/chat is 1"),
        ({"service": "a/b/c"}, "write NAME or NAMESPACE/NAME"),
    ],
)
async def test_a_hold_that_cannot_be(facade: Facade, fields: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        await facade.add_hold(hold(**fields), None)
    assert facade.holds() == []


async def test_unknown_services_are_named_as_such(facade: Facade) -> None:
    other = ServiceId("demo", "other")
    with pytest.raises(UnknownService, match="known: demo/chat"):
        facade.service(other)
    with pytest.raises(UnknownService):
        await facade.add_hold(hold(service=str(other)), None)


async def test_a_preview_from_another_age_is_refused(facade: Facade) -> None:
    with pytest.raises(InvalidRequest, match="ten years"):
        facade.preview(CHAT, datetime.max.replace(tzinfo=BEGIN.tzinfo), 14)
    assert facade.preview(CHAT, None, 14).windows == ()


async def test_the_start_under_way_comes_first(bench: Bench, facade: Facade) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    (under_way,) = facade.starts(CHAT, 10)
    assert under_way.outcome is None
    await bench.ready(40.0)
    assert [start.outcome for start in facade.starts(CHAT, 10)] == ["ready"]
    assert facade.start(under_way.id) == facade.starts(CHAT, 10)[0]


async def test_idle_seconds_are_those_of_now(bench: Bench, facade: Facade) -> None:
    bench.requests(waiting=1)
    await bench.tick()
    await bench.ready(40.0)
    bench.requests()
    await bench.tick()
    bench.now += timedelta(seconds=20)
    assert facade.service(CHAT).reason.text.startswith("idle for 20 s of the 60 s")


async def test_ready_names_what_is_missing(bench: Bench, facade: Facade) -> None:
    assert facade.ready() == "nothing has been decided yet"
    bench.host.up = False
    await bench.tick()
    assert facade.ready() == "the host does not answer"
    bench.host.up = True
    await bench.tick()
    assert facade.ready() == "the portal has not reported yet"
    bench.requests()
    assert facade.ready() is None
    bench.now += timedelta(seconds=30)
    assert facade.ready() == "the portal does not report any more"


async def test_metrics_without_a_portal(bench: Bench, facade: Facade) -> None:
    await bench.tick()
    text = await facade.metrics()
    assert "pilotlight_portal_up 0.0" in text
    assert 'pilotlight_floor{service="demo/chat"} 0.0' in text
