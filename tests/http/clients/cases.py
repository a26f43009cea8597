"""The cases of the matrix: each asks a client once, checks what must hold for all, tells what this one made of it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from runtime.contract import Failure, FailureCause
from tests.http.clients.engine import Watched, breaks_off, chat, errs
from tests.http.clients.ways import Client, Heard, Question
from tests.http.house import House, Place, place, until

Case = Callable[[House, Client], str]
HELLO = "hello"


def base(here: Place) -> str:
    """The portal's URL, as an OpenAI client is given it."""
    host, port = here.house.address
    return f"http://{host}:{port}/v1"


def told(heard: Heard) -> str:
    """How the client names a failure."""
    named = f"`{heard.error}`"
    return f"{named} {heard.status}" if heard.status and str(heard.status) not in heard.error else named


def warm(at: House, client: Client) -> str:
    """A whole answer."""
    with place(at, chat) as here:
        heard = client.ask(Question(base(here), here.name))
    assert heard == Heard(200, HELLO), heard
    return "answered"


def streamed(at: House, client: Client) -> str:
    """A stream."""
    with place(at, chat) as here:
        heard = client.ask(Question(base(here), here.name, stream=True))
    assert heard == Heard(200, HELLO), heard
    return "answered"


def large(at: House, client: Client) -> str:
    """A body of 2 MiB: curl asks with `Expect` before it sends one."""
    with place(at, chat) as here:
        heard = client.ask(Question(base(here), here.name, size_bytes=2**21))
        assert len(here.engine.seen[0].body) > 2**21
    assert heard == Heard(200, HELLO), heard
    return "answered"


def cold(at: House, client: Client) -> str:
    """A service at zero that becomes warm."""
    with place(at, chat, warm=False) as here, ThreadPoolExecutor(1) as threads:
        asked = threads.submit(client.ask, Question(base(here), here.name))
        here.waiting(1)
        here.warm()
        heard = asked.result()
    assert heard == Heard(200, HELLO), heard
    return "waits, answered"


def cold_stream(at: House, client: Client) -> str:
    """The same with a stream, long enough for heartbeats before its first word."""
    with place(at, chat, warm=False) as here, ThreadPoolExecutor(1) as threads:
        asked = threads.submit(client.ask, Question(base(here), here.name, stream=True))
        here.waiting(1)
        watching = here.line()  # it entered later: when it has its heartbeat, the client has had one
        watching.send(here.chat(stream=True))
        watching.until(b": pilotlight waiting")
        here.warm()
        heard = asked.result()
        watching.until(b"[DONE]")
    assert heard == Heard(200, HELLO), heard
    return "heartbeats, answered"


def failed(at: House, client: Client) -> str:
    """A service whose start has failed: 503 with Retry-After."""
    with place(at, warm=False, **_failure(after_s=60)) as here:
        heard = client.ask(Question(base(here), here.name))
        assert here.engine.raw == b""
    assert (heard.status, "the disk is full" in heard.text) == (503, True), heard
    return told(heard)


def retried(at: House, client: Client) -> str:
    """The same for a second, and then it is warm: clients that ask again by themselves are answered."""
    if not client.retries:
        return "–"
    with place(at, chat, warm=False, **_failure(after_s=1)) as here, ThreadPoolExecutor(1) as threads:
        before = _refusals(here)
        asked = threads.submit(client.ask, Question(base(here), here.name, retries=3))
        until(lambda: _refusals(here) > before)
        here.warm()
        heard = asked.result()
    assert heard == Heard(200, HELLO), heard
    return "asks again, answered"


def unwell(at: House, client: Client) -> str:
    """An engine that answers 500: its own words reach the client."""
    with place(at, errs) as here:
        heard = client.ask(Question(base(here), here.name))
        assert len(here.engine.seen) == 1
    assert (heard.status, "the engine is unwell" in heard.text) == (500, True), heard
    return told(heard)


def broken(at: House, client: Client) -> str:
    """An engine that dies in a stream."""
    with place(at, breaks_off) as here:
        heard = client.ask(Question(base(here), here.name, stream=True))
        assert len(here.engine.seen) == 1, "what was answered in part must not be asked again"
    if client.name == "curl --http1.0" and not heard.error:
        return "cannot tell"
    assert heard.error, (client.name, heard)
    return told(heard)


def left(at: House, client: Client) -> str:
    """The client leaves in a stream: the engine hears of it at once."""
    watched = Watched()
    with place(at, watched) as here:
        heard = client.ask(Question(base(here), here.name, stream=True, leave=True))
        assert heard.text.startswith("hel"), heard
        assert watched.saw_it_leave()
        here.running(0)
    return "engine freed"


def impatient(at: House, client: Client) -> str:
    """The client's own timeout ends while its request waits: its place is given up."""
    with place(at, chat, warm=False) as here:
        heard = client.ask(Question(base(here), here.name, patience_s=0.5))
        here.waiting(0)
        assert here.engine.raw == b""
    assert (heard.status, bool(heard.error)) == (0, True), heard
    return told(heard)


def _failure(*, after_s: float) -> dict[str, Any]:
    now = datetime.now(UTC)
    failure = Failure(cause=FailureCause.EXITED, message="the disk is full", at=now + timedelta(days=1))
    return {"failure": failure, "retry_at": now + timedelta(seconds=after_s)}


def _refusals(here: Place) -> int:
    return here.house.count("pilotlight_portal_requests_total", here.service, 'outcome="failed"')


CASES: dict[str, Case] = {
    "warm": warm,
    "stream": streamed,
    "2 MiB body": large,
    "cold, becomes warm": cold,
    "cold stream": cold_stream,
    "start failed": failed,
    "`Retry-After`": retried,
    "engine says 500": unwell,
    "engine dies in a stream": broken,
    "leaves in a stream": left,
    "own timeout while waiting": impatient,
}
SLOW = frozenset({"cold stream", "`Retry-After`"})
