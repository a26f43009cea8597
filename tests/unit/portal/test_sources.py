"""The controller comes, goes, changes, and is told what waits; without it the hosts are asked."""

import asyncio
from datetime import timedelta
from pathlib import Path

from aiohttp import web

from activator_ext.portal.limits import Pace
from activator_ext.portal.sources import Link
from activator_ext.portal.waker import route_seen
from runtime.contract import Endpoint, HostView, ReplicaView, ServiceView, Stage, Warmth
from tests.unit.portal.fakes import NOW, SOON_S, engine, failure, house, route, until


async def test_the_first_report_after_a_connect_names_every_service(tmp_path: Path) -> None:
    async with house(tmp_path, route(), route("team-b/other")) as at:
        report = at.controller.reports[0]
        assert report.portal == at.portal.id
        assert [(load.service, load.waiting, load.running) for load in report.services] == [
            ("team-a/chat", 0, 0),
            ("team-b/other", 0, 0),
        ]


async def test_every_edge_is_reported(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def slow(_request: web.Request) -> web.StreamResponse:
        await go.wait()
        return web.json_response({})

    async with engine(slow) as up, house(tmp_path, route()) as at:
        at.controller.reports.clear()
        asked = at.ask()
        await until(lambda: bool(at.controller.loads()))
        waiting = at.controller.loads()[-1]
        assert (waiting.waiting, waiting.running, waiting.oldest_waiting_at) == (1, 0, NOW)
        await at.controller.push(route("team-a/chat", up.url))
        await until(lambda: at.controller.loads()[-1].running == 1)
        assert at.controller.loads()[-1].waiting == 0
        go.set()
        (await asked).release()
        await until(lambda: at.controller.loads()[-1].running == 0)
        quiet_since = at.controller.loads()[-1].last_activity_at
        assert quiet_since is not None
        assert timedelta(0) <= NOW - quiet_since < timedelta(seconds=SOON_S), (
            "the wall clock stands still, not the steady"
        )


async def test_reports_go_on_while_anything_waits_and_full_ones_always(tmp_path: Path) -> None:
    active = Pace(active_every_s=0.001, full_every_s=3600, reconnect_s=0.001)
    async with house(tmp_path, route(), route("team-b/other"), pace=active) as at:
        asked = at.ask()
        await until(lambda: len(at.controller.loads()) > 5)
        assert len(at.controller.loads("team-b/other")) == 1, "only what is active"
        asked.cancel()
        await until(lambda: at.controller.loads()[-1].waiting == 0)
    full = Pace(active_every_s=3600, full_every_s=0.001, reconnect_s=0.001)
    async with house(tmp_path, route(), pace=full) as at:
        await until(lambda: len(at.controller.loads()) > 5)


async def test_a_gap_in_the_versions_is_answered_by_a_fresh_snapshot(tmp_path: Path) -> None:
    async with engine() as up, house(tmp_path, route()) as at:
        await at.controller.push(route("team-a/chat", up.url), skip=1)
        await until(lambda: at.controller.snapshots == 2 and at.portal.link.connected)
        async with at.post() as answer:
            assert answer.status == 200


async def test_without_its_controller_the_last_table_serves_and_a_new_one_with_a_lower_version_is_taken(
    tmp_path: Path,
) -> None:
    async with engine() as up, engine() as other, house(tmp_path, route("team-a/chat", up.url)) as at:
        for _ in range(5):
            await at.controller.push(route("team-a/chat", up.url))
        await at.controller.stop()
        await until(lambda: not at.portal.link.connected)
        async with at.post() as answer:
            assert answer.status == 200
        at.controller.reports.clear()
        await at.controller.start(route("team-a/chat", other.url), version=1)
        await until(lambda: at.portal.link.connected and bool(at.controller.reports))
        assert at.portal.door.table.version == 1
        assert at.controller.loads(), "a full report greets the new controller"
        async with at.post() as answer:
            assert answer.status == 200
        assert len(other.bodies) == 1


async def test_who_waits_is_served_by_the_next_controller(tmp_path: Path) -> None:
    async with engine() as up, house(tmp_path, route()) as at:
        asked = at.ask()
        await at.waiting(1)
        await at.controller.stop()
        await until(lambda: not at.portal.link.connected)
        await at.controller.start(route("team-a/chat", up.url))
        assert (await asked).status == 200


async def test_without_its_controller_the_host_is_woken_and_its_engine_used(tmp_path: Path) -> None:
    wakes: list[str] = []
    ready = asyncio.Event()

    async with engine() as up:

        async def on_wake(request: web.Request) -> web.Response:
            wakes.append(request.path)
            warmth = Warmth.WARM if ready.is_set() else Warmth.WARMING
            return web.Response(text=_host_view(up.url, warmth).model_dump_json())

        app = web.Application()
        app.router.add_post("/v1/services/{ns}/{name}/wake", on_wake)
        runner = web.AppRunner(app, shutdown_timeout=0.01)
        await runner.setup()
        await web.UnixSite(runner, str(tmp_path / "h.sock")).start()
        async with house(tmp_path, route(host_socket=str(tmp_path / "h.sock"))) as at:
            await at.controller.stop()
            await until(lambda: not at.portal.link.connected)
            assert not wakes, "nobody asked yet"
            asked = at.ask()
            await until(lambda: len(wakes) >= 2)
            assert at.portal.door.table.routes["team-a/chat"].stage is Stage.COMPILE
            ready.set()
            assert (await asked).status == 200
            assert set(wakes) == {"/v1/services/team-a/chat/wake"}
        await runner.cleanup()


async def test_a_host_that_cannot_be_reached_costs_nothing_but_the_wait(tmp_path: Path) -> None:
    async with engine() as up, house(tmp_path, route(host_socket=str(tmp_path / "nobody.sock"))) as at:
        await at.controller.stop()
        asked = at.ask()
        await at.waiting(1)
        await at.controller.start(route("team-a/chat", up.url))
        assert (await asked).status == 200


async def test_an_orphan_is_one_whose_controller_stays_away() -> None:
    link = Link()
    link.set(connected=True)
    orphaned = asyncio.create_task(link.orphaned(0.0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not orphaned.done(), "connected"
    link.set(connected=False)
    async with asyncio.timeout(SOON_S):
        await orphaned


async def test_a_controller_that_returns_in_time_leaves_no_orphan(tmp_path: Path) -> None:
    async with house(tmp_path, route(), orphan_s=30.0) as at:
        await at.controller.stop()
        await until(lambda: not at.portal.link.connected)
        await at.controller.start(route())
        await until(lambda: at.portal.link.connected)
        assert not at.task.done()


def test_a_route_as_its_host_sees_it() -> None:
    known = route(eta_at=NOW)
    seen = route_seen(known, _host_view("http://e", Warmth.WARM).services[0])
    assert (seen.warmth, seen.endpoints) == (Warmth.WARM, (Endpoint(replica="team-a/chat/0", url="http://e"),))
    draining = _host_view("http://e", Warmth.WARM, draining=True).services[0]
    assert route_seen(known, draining).endpoints == ()
    failed = ServiceView(service="team-a/chat", replicas_wanted=1, last_failure=failure(), retry_at=NOW)
    assert route_seen(known, failed).failure == failure()
    assert route_seen(known, failed).warmth is Warmth.COLD


def _host_view(url: str, warmth: Warmth, *, draining: bool = False) -> HostView:
    replica = ReplicaView(
        id="team-a/chat/0",
        service="team-a/chat",
        warmth=warmth,
        since=NOW,
        start_id="h-1",
        url=url,
        stage=None if warmth is Warmth.WARM else Stage.COMPILE,
        ready_at=NOW if warmth is Warmth.WARM else None,
        draining=draining,
    )
    service = ServiceView(service="team-a/chat", replicas_wanted=1, replicas=(replica,))
    return HostView(host="h", version="0", revision=1, lease_until=None, services=(service,))
