import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from activator_ext.adapters.knative.actuator import KnativeActuator
from activator_ext.adapters.knative.nudge import Nudger
from activator_ext.adapters.knative.objects import MIN_SCALE, Scheme
from activator_ext.adapters.knative.plan import Step
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.patience import WatchPatience
from activator_ext.adapters.kubernetes.resource import DEPLOYMENTS, POD_AUTOSCALERS, REVISIONS, Key
from tests.unit.adapters.knative.knative_server import KnativeServer, knative_server
from tests.unit.adapters.knative.world import CHAT, deployment, ours, revision

R1, R2 = "chat-predictor-00001", "chat-predictor-00002"
T0 = datetime(2026, 11, 30, 9, tzinfo=UTC)
QUICK = WatchPatience(first_s=0.001, most_s=0.01, silence_s=30, life_s=30)


class Nudges(Nudger):
    """Remembers what it was asked; `why` is what stands in the way."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.whys: dict[Key, str] = {}

    def start(self, revision: Key) -> None:
        self.asked.append(revision.name)

    def failed(self) -> dict[Key, str]:
        return self.whys


class Here:
    """An actuator that runs on a server; `restart` begins a fresh one that remembers nothing."""

    def __init__(self, server: KnativeServer, client: Client) -> None:
        self.server, self.client = server, client
        self.now = T0
        self.leads = True
        self.nudges = Nudges()
        self.changed = 0
        self.knative = self._fresh()

    def _fresh(self) -> KnativeActuator:
        def changed() -> None:
            self.changed += 1

        return KnativeActuator(
            self.client,
            self.nudges,
            leading=lambda: self.leads,
            changed=changed,
            clock=lambda: self.now,
            patience=QUICK,
        )

    async def run(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.knative.run())
        try:
            async with asyncio.timeout(10):
                await self.knative.wait_synced()
                for collection in self.server.collections.values():
                    await collection.watched()
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def restart(self) -> None:
        self.knative = self._fresh()

    def running(self) -> Any:
        return asynccontextmanager(self.run)()

    async def until(self, what: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not what():  # noqa: ASYNC110  (what is awaited has no event)
                await asyncio.sleep(0.001)

    async def shown(self) -> None:
        """Until the watches have what the server has."""

        def same() -> bool:
            known = self.knative.revisions.objects
            return all(
                known[Key("team-a", name)].version == value["metadata"]["resourceVersion"]
                for name, value in self.server.collections["revisions"].objects.items()
            )

        await self.until(same)


@asynccontextmanager
async def house(tmp_path: Path, *revisions: dict[str, Any], latest: str = R1) -> AsyncIterator[Here]:
    async with knative_server() as server:
        server.serve(latest)
        for one in revisions:
            server.add(POD_AUTOSCALERS, revision(one["metadata"]["name"]))
            server.add(REVISIONS, one)
        async with await Client.connect(server.kubeconfig(tmp_path)) as client:
            yield Here(server, client)


async def test_before_all_is_listed_nothing_is_done(tmp_path: Path) -> None:
    async with house(tmp_path, ours(R1, "1")) as here:
        report = await here.knative.carry_out({})
        assert len(report.waits_for) == 4
        assert here.server.writes == 0


async def test_what_was_written_is_not_written_again_before_the_watch_shows_it(tmp_path: Path) -> None:
    async with house(tmp_path, revision(R1)) as here, here.running():
        here.server.shows = False
        assert len((await here.knative.carry_out({CHAT: 1})).done) == 1
        for _ in range(3):
            assert (await here.knative.carry_out({CHAT: 1})).done == ()
        assert here.server.writes == 1
        report = await here.knative.carry_out({CHAT: 2})
        assert [done.write.value for done in report.done] == [2]
        assert here.server.held() == [(R1, "2", ["pilotlight/was=0"])]


async def test_an_edit_meanwhile_is_read_and_planned_for_anew(tmp_path: Path) -> None:
    async with house(tmp_path, revision(R1)) as here, here.running():
        here.server.shows = False
        here.server.add(REVISIONS, revision(R1, min_scale="3", by=("kubectl-edit", "Update")))
        report = await here.knative.carry_out({CHAT: 2})
        assert report.done == ()
        assert report.faults == ()
        assert here.server.held() == [(R1, "3", [])]
        here.server.add(REVISIONS, revision(R1, min_scale="1"))
        report = await here.knative.carry_out({CHAT: 2})
        assert report.faults == ()
        assert [done.write.manager for done in report.done] == ["pilotlight/was=1"]


async def test_who_does_not_lead_writes_and_nudges_nothing(tmp_path: Path) -> None:
    async with house(tmp_path, revision(R1)) as here, here.running():
        here.leads = False
        assert (await here.knative.carry_out({CHAT: 1})).done == ()
        assert here.server.writes == 0


async def test_a_write_that_fails_is_told_and_tried_in_the_next_round(tmp_path: Path) -> None:
    async with house(tmp_path, revision(R1)) as here, here.running():
        here.server.fail_before = 1
        report = await here.knative.carry_out({CHAT: 1})
        assert report.done == ()
        assert "500 InternalError: told to" in report.faults[0]
        assert report.next_at == T0 + timedelta(seconds=5)
        assert len((await here.knative.carry_out({CHAT: 1})).done) == 1


@pytest.mark.parametrize("way", ["fail_before", "cut_after"])
@pytest.mark.parametrize("was", [None, "0", "1"])
async def test_killed_at_any_write_a_fresh_one_converges(tmp_path: Path, way: str, was: str | None) -> None:
    for number in range(1, 5):
        async with house(tmp_path, revision(R1, min_scale=was), ours(R2, "4")) as here:
            setattr(here.server, way, number)
            async with here.running():
                await here.knative.carry_out({CHAT: 2})
                await here.shown()
                await here.knative.carry_out({CHAT: 3})
            here.restart()
            setattr(here.server, way, 0)
            async with here.running():
                await here.knative.carry_out({CHAT: 3})
                manager = "pilotlight" if was is None else f"pilotlight/was={was}"
                assert here.server.held() == [(R1, "3", [manager]), (R2, "0", [])], number
                await here.shown()
                setattr(here.server, way, here.server.writes + number)
                await here.knative.clear_all()
            here.restart()
            setattr(here.server, way, 0)
            async with here.running():
                await here.knative.clear_all()
                assert here.server.held() == [(R1, was, []), (R2, "0", [])], number


async def test_a_floor_that_is_not_heeded_is_nudged_and_a_failing_nudge_told(tmp_path: Path) -> None:
    async with house(tmp_path, revision(R1)) as here:
        here.server.heeds = False
        here.server.add(DEPLOYMENTS, deployment(R1, 0))
        async with here.running():
            await here.knative.carry_out({CHAT: 1})
            await here.shown()
            report = await here.knative.carry_out({CHAT: 1})
            assert report.next_at == T0 + timedelta(seconds=2)
            here.now = T0 + timedelta(seconds=2)
            here.nudges.whys = {Key("team-a", R1): "activator:80: refused"}
            report = await here.knative.carry_out({CHAT: 1})
            assert here.nudges.asked == [R1]
            assert "a nudge failed: activator:80: refused" in report.faults[0]
            here.nudges.whys = {}
            here.server.add(DEPLOYMENTS, deployment(R1, 1))
            await here.until(lambda: here.knative.deployments.objects[Key("team-a", f"{R1}-deployment")] == 1)
            here.now += timedelta(minutes=5)
            report = await here.knative.carry_out({CHAT: 1})
            assert (here.nudges.asked, report.next_at) == ([R1], None)


@pytest.mark.parametrize(("label", "scheme"), [("1.20.3", Scheme.POD_AUTOSCALER), ("v1.21.0", Scheme.REVISION)])
async def test_the_version_says_where_floors_belong(tmp_path: Path, label: str, scheme: Scheme) -> None:
    async with house(tmp_path, revision(R1)) as here:
        here.server.version_label = label
        here.server.copies = scheme is Scheme.REVISION
        async with here.running():
            report = await here.knative.carry_out({CHAT: 1})
            assert [done.write.scheme for done in report.done] == [scheme]
            plural = "revisions" if scheme is Scheme.REVISION else "podautoscalers"
            assert here.server.held(plural) == [(R1, "1", ["pilotlight/was=0"])]


async def test_an_old_knative_that_names_no_version_is_found_out_and_stays_so_for_a_fresh_one(tmp_path: Path) -> None:
    async with house(tmp_path, revision(R1)) as here:
        here.server.version_label, here.server.copies, here.server.at = "devel", False, "2026-11-30T09:00:00Z"
        async with here.running():
            await here.knative.carry_out({CHAT: 1})
            await here.shown()
            assert (await here.knative.carry_out({CHAT: 1})).done == ()
            here.now = T0 + timedelta(seconds=6)
            report = await here.knative.carry_out({CHAT: 1})
            assert [(done.write.step, done.write.scheme) for done in report.done] == [
                (Step.RAISE, Scheme.POD_AUTOSCALER),
                (Step.RESTORE, Scheme.REVISION),
            ]
        here.restart()
        here.now = T0 + timedelta(seconds=12)
        async with here.running():
            assert (await here.knative.carry_out({CHAT: 1})).done == ()
            assert here.knative.scheme is Scheme.POD_AUTOSCALER
            await here.knative.clear_all()
        assert here.server.held("podautoscalers") == [(R1, "0", [])]
        assert here.server.held() == [(R1, "0", [])]
        assert sum("customresourcedefinitions" in query.get("path", "") for _, query in here.server.seen) == 2


async def test_only_what_matters_to_a_floor_asks_for_a_round(tmp_path: Path) -> None:
    async with house(tmp_path, revision(R1)) as here, here.running():
        await here.until(lambda: len(here.knative.deployments.objects) == 1)
        before = here.changed
        for n in range(5):
            here.server.add(REVISIONS, {**revision(R1), "status": {"actualReplicas": n}})
        await here.shown()
        assert here.changed == before
        here.server.add(REVISIONS, revision(R1, min_scale="1"))
        await here.until(lambda: here.changed > before)


def test_the_annotation_is_knatives_own() -> None:
    assert MIN_SCALE == "autoscaling.knative.dev/min-scale"
