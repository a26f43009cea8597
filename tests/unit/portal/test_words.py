"""What clients read: progress, refusals, events."""

import json
from datetime import timedelta

import pytest

from activator_ext.portal import refusals, sse
from activator_ext.portal.progress import progress
from activator_ext.portal.sse import Event, Parser
from runtime.contract import Route, Stage
from tests.unit.portal.fakes import NOW, failure, route

IN_31_S = NOW + timedelta(seconds=30.6)
PAST = NOW - timedelta(seconds=3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (route(stage=Stage.COMPILE, eta_at=IN_31_S), "pilotlight waiting stage=compile eta_s=31 position=2"),
        (route(), "pilotlight waiting stage=queued position=2"),
        (route(eta_at=PAST), "pilotlight waiting stage=queued eta_s=0 position=2"),
    ],
)
def test_progress(given: Route, expected: str) -> None:
    assert progress(given, NOW, 2) == expected


@pytest.mark.parametrize(
    ("refusal", "status", "retry_after_s"),
    [
        pytest.param(refusals.full("…", route(eta_at=IN_31_S), NOW, 5), 429, 31, id="full: until the start is done"),
        pytest.param(refusals.full("…", route(), NOW, 5), 429, 5, id="full, nobody knows"),
        pytest.param(refusals.full("…", route(eta_at=PAST), NOW, 5), 429, 1, id="full, overdue: at least 1"),
        pytest.param(refusals.timed_out(route(), NOW, 5), 503, 5, id="timed out"),
        pytest.param(refusals.timed_out(route(eta_at=IN_31_S), NOW, 5), 503, 31, id="timed out, done soon"),
        pytest.param(refusals.failed(route(failure=failure(), retry_at=IN_31_S), NOW), 503, 31, id="failed"),
        pytest.param(refusals.failed(route(failure=failure()), NOW), 503, None, id="failed, no try planned"),
    ],
)
def test_retry_after_is_honest(refusal: refusals.Refusal, status: int, retry_after_s: int | None) -> None:
    assert (refusal.status, refusal.retry_after_s) == (status, retry_after_s)
    assert refusal.headers().get("Retry-After") == (None if retry_after_s is None else str(retry_after_s))


def test_a_refusal_has_the_shape_of_openai_errors() -> None:
    body = json.loads(refusals.failed(route(failure=failure("no such directory")), NOW).body())
    assert body["error"]["code"] == "model-missing"
    assert "no such directory" in body["error"]["message"]
    assert set(body["error"]) == {"message", "type", "code"}


EVENTS = b": hi\n\nevent: snapshot\r\ndata: {\r\ndata: }\r\n\r\nid: 1\n\ndata:x\n\n"


@pytest.mark.parametrize("cut", range(len(EVENTS)))
def test_events_are_read_wherever_the_chunks_are_cut(cut: int) -> None:
    parser = Parser()
    events = [*parser.feed(EVENTS[:cut]), *parser.feed(EVENTS[cut:])]
    assert events == [Event("snapshot", "{\n}"), Event("message", "x")]


def test_events_are_written() -> None:
    assert sse.comment("a b") == b": a b\n\n"
    assert sse.data(b"{\n}") == b"data: {\ndata: }\n\n"
    assert sse.data(b"") == b"data: \n\n"
