import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.patience import WatchPatience
from activator_ext.adapters.kubernetes.resource import REVISIONS, Key
from activator_ext.adapters.kubernetes.watched import PAGE, Watched
from tests.unit.adapters.kubernetes.api_server import ApiServer, api_server

QUICK = WatchPatience(first_s=0.001, most_s=0.01, silence_s=30, life_s=30)
T0 = datetime(2026, 11, 30, 9, tzinfo=UTC)


class House:
    """A server, a client and a watch of it that runs."""

    def __init__(self, server: ApiServer, client: Client, patience: WatchPatience = QUICK) -> None:
        self.server = server
        self.client = client
        self.changes: list[str] = []
        self.now = T0
        self.watched = Watched(
            client,
            REVISIONS,
            lambda seen: None if seen["spec"] == "hidden" else str(seen["spec"]),
            changed=lambda key: self.changes.append(key.name),
            clock=lambda: self.now,
            patience=patience,
            chance=lambda: 0.5,
        )

    @property
    def known(self) -> dict[str, str]:
        return {key.name: value for key, value in self.watched.objects.items()}

    async def until(self, what: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not what():  # noqa: ASYNC110  (what is awaited has no event)
                await asyncio.sleep(0.001)


@asynccontextmanager
async def house(tmp_path: Path, *, patience: WatchPatience = QUICK, **objects: str) -> AsyncIterator[House]:
    async with api_server() as server:
        for name, spec in objects.items():
            server.put(name, spec=spec)
        async with await Client.connect(server.kubeconfig(tmp_path)) as client:
            here = House(server, client, patience)
            task = asyncio.create_task(here.watched.run())
            try:
                yield here
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


async def test_lists_then_follows(tmp_path: Path) -> None:
    async with house(tmp_path, a="1", b="hidden") as here:
        assert not here.watched.synced
        await here.watched.wait_synced()
        assert here.known == {"a": "1"}
        assert here.watched.seen_at == T0
        await here.server.watched()
        here.server.put("c", spec="3")
        here.server.put("a", spec="2")
        here.server.put("b", spec="shown")
        await here.until(lambda: "b" in here.known)
        assert here.known == {"a": "2", "b": "shown", "c": "3"}
        here.server.delete("a")
        await here.until(lambda: "a" not in here.known)
        assert here.changes == ["a", "c", "a", "b", "a"]


async def test_an_edit_of_what_is_not_kept_calls_nobody(tmp_path: Path) -> None:
    async with house(tmp_path, a="1") as here:
        await here.server.watched()
        here.server.put("a", spec="1", status="changed")
        here.server.put("z", spec="1")
        await here.until(lambda: "z" in here.known)
        assert here.changes == ["a", "z"]


async def test_a_long_list_comes_in_pages(tmp_path: Path) -> None:
    many = {f"r{n}": str(n) for n in range(2 * PAGE + 1)}
    async with house(tmp_path, patience=QUICK, **many) as here:
        await here.watched.wait_synced()
        assert len(here.known) == 2 * PAGE + 1
        assert [query.get("continue") for _, query in here.server.seen[:3]] == [None, str(PAGE), str(2 * PAGE)]


async def test_a_cut_watch_goes_on_from_where_it_was(tmp_path: Path) -> None:
    async with house(tmp_path, a="1") as here:
        await here.server.watched()
        here.server.put("b", spec="2")
        await here.until(lambda: "b" in here.known)
        version = str(here.server.version)
        here.server.say(None)
        await here.until(lambda: len([1 for _, query in here.server.seen if "watch" in query]) == 2)
        lists = [query for _, query in here.server.seen if "watch" not in query]
        assert len(lists) == 1
        assert here.server.seen[-1][1]["resourceVersion"] == version


async def test_a_bookmark_moves_the_version(tmp_path: Path) -> None:
    async with house(tmp_path, a="1") as here:
        await here.server.watched()
        here.server.tell("BOOKMARK", {"metadata": {"resourceVersion": "777"}})
        here.server.say(None)
        await here.until(lambda: here.server.seen[-1][1].get("resourceVersion") == "777")
        assert here.known == {"a": "1"}
        assert here.changes == ["a"]


async def test_too_old_a_version_lists_again_at_once_and_tells_what_went(tmp_path: Path) -> None:
    async with house(tmp_path, a="1", b="2") as here:
        await here.server.watched()
        queues, here.server.queues = here.server.queues, []
        here.server.delete("a")  # not told
        here.server.put("c", spec="3")
        here.server.oldest = here.server.version
        for queue in queues:
            queue.put_nowait(None)
        here.server.queues = queues
        await here.until(lambda: here.known == {"b": "2", "c": "3"})
        assert sorted(here.changes[2:]) == ["a", "c"]
        assert here.watched.trouble is None


@pytest.mark.parametrize(
    "garbage",
    [
        b"no json\n",
        b'{"type": "MODIFIED"}\n',
        b'{"type": "MODIFIED", "object": []}\n',
        b'{"type": "MODIFIED", "object": {"spec": "x"}}\n',
        b'{"type": "STRANGE", "object": {"metadata": {"name": "a"}}}\n',
        b'{"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd is ill"}}\n',
        b"\xff\xfe\n",
    ],
)
async def test_garbage_is_told_and_got_over(tmp_path: Path, garbage: bytes) -> None:
    async with house(tmp_path, a="1") as here:
        await here.server.watched()
        troubles: list[str] = []
        here.server.faults = [_remember(here, troubles)]
        here.server.say(garbage)
        await here.until(lambda: troubles)
        await here.server.watched()
        here.server.put("b", spec="2")
        await here.until(lambda: "b" in here.known)
        assert troubles[0].startswith(f"revisions.serving.knative.dev at {here.server.url}")
        assert here.watched.trouble is None
        assert here.known == {"a": "1", "b": "2"}


def _remember(here: House, troubles: list[str]) -> Callable[[web.Request], Awaitable[None]]:
    async def handle(request: web.Request) -> None:
        assert here.watched.trouble is not None
        troubles.append(here.watched.trouble.text)

    return handle


async def test_an_event_that_was_cut_in_the_middle_is_no_event(tmp_path: Path) -> None:
    async with house(tmp_path, a="1") as here:
        await here.server.watched()
        here.server.say(b'{"type": "DELETED", "object": {"metadata": {"namespace": "team-a", "name": "a"}')
        here.server.say(None)
        await here.until(lambda: len([1 for _, query in here.server.seen if "watch" in query]) == 2)
        assert here.known == {"a": "1"}


async def test_a_watch_that_hangs_is_begun_again_without_trouble(tmp_path: Path) -> None:
    async with house(tmp_path, patience=replace(QUICK, silence_s=0.05), a="1") as here:
        await here.until(lambda: len([1 for _, query in here.server.seen if "watch" in query]) >= 3)
        assert here.watched.trouble is None
        assert len([1 for _, query in here.server.seen if "watch" not in query]) == 1


async def test_when_the_api_server_is_gone_the_last_state_stays_and_since_when_is_told(tmp_path: Path) -> None:
    async with house(tmp_path, a="1") as here:
        await here.server.watched()
        port = int(here.server.url.rpartition(":")[2])
        here.now = T0 + timedelta(minutes=5)
        await here.server.stop()
        await here.until(lambda: here.watched.trouble is not None)
        here.now = T0 + timedelta(minutes=7)
        await asyncio.sleep(0.05)
        trouble = here.watched.trouble
        assert trouble is not None
        assert trouble.since == T0 + timedelta(minutes=5)
        assert here.known == {"a": "1"}
        assert here.watched.synced
        here.server.put("b", spec="2")
        await here.server.start(port)
        await here.until(lambda: "b" in here.known)
        await here.until(lambda: here.watched.trouble is None)
        assert here.watched.seen_at == T0 + timedelta(minutes=7)


async def test_a_crd_that_is_not_installed_is_missing(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.server.watched()
        here.server.oldest = 10**6

        async def none(request: web.Request) -> web.StreamResponse:
            here.server.faults.append(none)
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)

        here.server.faults = [none]
        here.server.say(None)
        await here.until(lambda: here.watched.trouble is not None and here.watched.trouble.missing)
        assert "its CRD is not installed" in (here.watched.trouble.text if here.watched.trouble else "")


async def test_one_object_that_cannot_be_read_keeps_its_last_good_state(tmp_path: Path) -> None:
    async with house(tmp_path, a="1") as here:
        await here.server.watched()
        here.server.put("a", other="no spec")
        here.server.put("b", spec="2")
        await here.until(lambda: "b" in here.known)
        assert here.known == {"a": "1", "b": "2"}
        assert here.watched.unreadable == {Key("team-a", "a"): "KeyError: 'spec'"}
        here.server.put("a", spec="3")
        await here.until(lambda: here.known["a"] == "3")
        assert not here.watched.unreadable


async def test_a_refused_list_is_tried_with_growing_pauses(tmp_path: Path) -> None:
    async with api_server() as server:

        async def refuse(request: web.Request) -> web.StreamResponse:
            return web.json_response({"reason": "Forbidden", "message": "no", "code": 403}, status=403)

        server.faults = [refuse] * 3
        server.put("a", spec="1")
        async with await Client.connect(server.kubeconfig(tmp_path)) as client:
            here = House(server, client)
            task = asyncio.create_task(here.watched.run())
            await here.watched.wait_synced()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert client.requests["GET revisions"] == 4


def test_pauses_double_up_to_the_longest_and_chance_shortens_them_by_half_at_most() -> None:
    patience = WatchPatience(first_s=1, most_s=10)
    assert [patience.pause_s(n, 0) for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]
    assert patience.pause_s(3, 0.999) > 2
