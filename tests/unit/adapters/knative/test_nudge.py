import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from activator_ext.adapters.knative.nudge import MOST, Nudger
from activator_ext.adapters.kubernetes.resource import Key

R1 = Key("team-a", "chat-predictor-00001")


class Activator:
    """Takes requests; while `holds`, as for a Revision at zero, none is answered."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.holds = False
        self.address = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        if self.holds:
            await asyncio.sleep(3600)
        return web.Response(status=404)


@asynccontextmanager
async def activator() -> AsyncIterator[Activator]:
    here = Activator()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", here.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    here.address = f"127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield here
    finally:
        await runner.cleanup()


async def test_a_nudge_names_its_revision_and_is_no_probe() -> None:
    async with activator() as here, Nudger(here.address) as nudger:
        assert await nudger.nudge(R1) is None
        (request,) = here.requests
        assert request.method == "GET"
        assert request.headers["Knative-Serving-Namespace"] == "team-a"
        assert request.headers["Knative-Serving-Revision"] == "chat-predictor-00001"
        assert "probe" not in str(dict(request.headers)).lower()


async def test_one_that_waits_was_taken() -> None:
    async with activator() as here, Nudger(here.address, wait_s=0.05) as nudger:
        here.holds = True
        assert await nudger.nudge(R1) is None
        assert len(here.requests) == 1


async def test_no_activator_is_told() -> None:
    async with activator() as here:
        address = here.address
    async with Nudger(address) as nudger:
        nudger.start(R1)
        while not (failed := nudger.failed()):  # noqa: ASYNC110  (what is awaited has no event)
            await asyncio.sleep(0.001)
        assert address in failed[R1]
        assert nudger.failed() == {}


async def test_starting_waits_for_nothing_and_is_bounded() -> None:
    async with activator() as here, Nudger(here.address) as nudger:
        here.holds = True
        for n in range(2 * MOST):
            nudger.start(Key("team-a", f"r{n}"))
            nudger.start(Key("team-a", f"r{n}"))
        while len(here.requests) < MOST:  # noqa: ASYNC110  (what is awaited has no event)
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        assert len(here.requests) == MOST
