"""An engine that compiled with less memory for its KV cache is begun anew by its host; the fake engine serves."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from runtime.cache.shelf import Shelf
from runtime.contract import EngineSpec, ServiceOrder, StartRecord, Verdict, Warmth
from runtime.engine import compiled
from runtime.engine.fork.pool import ForkPool
from runtime.engine.launch import Launcher
from runtime.engine.start import utc_now
from runtime.host.dedicated import Dedicated
from runtime.host.engine_options import read_options
from runtime.host.supervisor import Supervisor
from tests.fakes.model import fake_command, make_model
from tests.serving import free_port

CHAT = "test/chat"


class Host:
    """A supervisor with a shelf, in this process."""

    def __init__(self, root: Path, model: Path, forks: ForkPool | None = None) -> None:
        """`forks`: of real vLLM; None: the fake engine."""
        self.root, self.model = root, model
        self.shelf = Shelf(root / ".shelf", clock=utc_now, version="0.1.0")
        self._changed = asyncio.Event()
        self.supervisor = Supervisor(
            host="a",
            version="0.1.0",
            root=root / "engines",
            spans=None,
            clock=utc_now,
            on_change=self._changed.set,
            on_stage=lambda _: None,
            launcher=Launcher(None if forks else fake_command(), forks=forks, shelf=self.shelf),
        )

    def order(self, replicas: int, *, requests_wait: bool | None = False, args: tuple[str, ...] = ()) -> None:
        spec = EngineSpec(service=CHAT, served_names=(CHAT,), model=str(self.model), args=args, drain_timeout_s=1)
        order = ServiceOrder(spec=spec, replicas=replicas, asked_at=utc_now(), why="test", requests_wait=requests_wait)
        self.supervisor.order(order)

    @property
    def starts(self) -> tuple[StartRecord, ...]:
        return self.supervisor.view().starts

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(400):
            while not reached():
                self._changed.clear()
                await self._changed.wait()

    async def warm(self, count: int) -> list[StartRecord]:
        """The starts so far, once so many replicas are warm and have published."""

        def reached() -> bool:
            replicas = [replica for service in self.supervisor.view().services for replica in service.replicas]
            return [r.warmth for r in replicas if not r.draining] == [Warmth.WARM] * count

        await self.until(reached)
        return sorted(self.starts, key=lambda start: int(start.id.rpartition("-")[2]))

    async def close(self) -> None:
        await self.supervisor.stop(0)
        await self.shelf.close()


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The KV cache's size is measured, as on a GPU; on a CPU it is given."""
    monkeypatch.setattr(compiled, "given", lambda *_: False)


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Callable[..., Host]]:
    hosts: list[Host] = []

    def made(**ways: Any) -> Host:
        root = tmp_path / str(len(hosts))
        hosts.append(Host(root, make_model(root / "model", compiles=True, **ways)))
        return hosts[-1]

    yield made
    for host in hosts:
        await host.close()


async def test_it_is_begun_anew_with_what_it_compiled(make: Callable[..., Host]) -> None:
    host = make(kv_tokens=[700_000, 800_000])
    host.order(1)
    first, second = await host.warm(1)
    assert (first.outcome, first.ready_s, first.cache.verdict) == ("recycled", None, Verdict.ABSENT)
    assert first.cache.published is not None, "others need not compile any more"
    assert "to be recycled: it compiled, and its KV cache (700,000 tokens) is what that left" in first.cache.note
    assert (second.outcome, second.cache.verdict, second.cache.origin) == ("ready", Verdict.USED, "own")
    assert second.why.startswith("recycled: ")
    assert second.golden_tokens == first.golden_tokens
    assert [start.outcome for start in host.starts].count("ready") == 1


async def test_what_was_learned_decides_from_then_on(make: Callable[..., Host]) -> None:
    """Another replica that compiles: with as much KV cache it serves, with less it is begun anew."""
    for with_code, outcomes in ((700_000, ["ready"]), (800_000, ["recycled", "ready"])):
        host = make(kv_tokens=[700_000, with_code])
        host.order(1)
        starts = await host.warm(1)
        assert [start.outcome for start in starts] == ["recycled", "ready"]
        await host.until(partial(_has_learned, host, with_code))
        host.order(0)
        await host.warm(0)
        _forget_what_was_compiled(host)
        host.order(1)
        starts = await host.warm(1)
        assert [start.outcome for start in starts[2:]] == outcomes


async def test_never_while_a_request_waits(make: Callable[..., Host]) -> None:
    host = make(kv_tokens=[700_000, 800_000])
    host.order(1, requests_wait=True)
    (only,) = await host.warm(1)
    assert (only.outcome, only.cache.verdict) == ("ready", Verdict.ABSENT)


async def test_never_twice_in_a_row(make: Callable[..., Host]) -> None:
    """It compiles each time: whatever is wrong, the second start serves."""
    host = make(kv_tokens=[700_000, 800_000])
    (host.model / "fake.json").write_text('{"compiles": "new", "kv_tokens": [700000, 800000]}')
    host.order(1)
    first, second = await host.warm(1)
    assert (first.outcome, second.outcome) == ("recycled", "ready")
    assert second.cache.verdict is Verdict.RECOMPILED


async def test_an_order_that_ends_meanwhile_begins_nothing(make: Callable[..., Host]) -> None:
    host = make(kv_tokens=[700_000, 800_000])
    host.order(1)
    await host.until(lambda: any("to be recycled" in start.cache.note for start in host.starts))
    host.order(0)
    await host.until(lambda: not any(service.replicas for service in host.supervisor.view().services))
    assert [start.outcome for start in host.starts] in (["recycled"], ["cancelled"])


async def test_an_engine_that_does_not_say(make: Callable[..., Host]) -> None:
    host = make()
    host.order(1)
    (only,) = await host.warm(1)
    assert only.outcome == "ready"


def _has_learned(host: Host, tokens: int) -> bool:
    services = host.shelf._experience._read()
    return CHAT in services and tokens in services[CHAT].kv_tokens.values()


def _forget_what_was_compiled(host: Host) -> None:
    for proof in host.root.glob("**/pilotlight-proven.json"):
        proof.unlink()
    for pointer in host.root.glob(".shelf/store/bundles/*/*.json"):
        pointer.unlink()


async def test_a_pods_engine_is_begun_anew(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nobody tells a pod whether requests wait; it is not ready yet, so none is sent to it."""
    model = make_model(tmp_path / "model", compiles=True, kv_tokens=[700_000, 800_000])
    port = free_port()
    options = read_options(
        [
            *("--listen", f"127.0.0.1:{port}", "--root", str(tmp_path / "engine"), "--let-go-s", "0"),
            *("--", "--model", str(model), "--served-model-name", "chat"),
        ],
        {},
    )
    shelf = Shelf(tmp_path / ".shelf", clock=utc_now, version="0.1.0")
    pod = Dedicated(options, Launcher(fake_command(), shelf=shelf, listen=options.listen), utc_now())
    run = asyncio.create_task(pod.run())
    async with asyncio.timeout(60), httpx.AsyncClient() as http:
        while not run.done():
            with contextlib.suppress(httpx.TransportError):
                if (await http.get(f"http://127.0.0.1:{port}/pilotlight/ready")).status_code == 200:
                    break
            await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await run == 0
    told = capfd.readouterr()
    starts = [json.loads(line)["start"] for line in told.out.splitlines() if line.startswith('{"start":')]
    assert {start["outcome"] for start in starts} == {"recycled", "ready"}
    assert starts[0]["outcome"] == "recycled"
    assert starts[0]["cache"]["published"]
    assert starts[-1]["outcome"] == "ready"
    assert starts[-1]["cache"]["verdict"] == "used"
    assert "the engine is begun anew: to be recycled: it compiled" in told.err
