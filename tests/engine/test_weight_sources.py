"""Real vLLM and where its weights come from: a loader that fails, a bucket, one that stalls; nothing wrong serves."""

import asyncio
import contextlib
import os
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from demo.models import make_model
from runtime.contract import EngineSpec, FailureCause, Stage, StartRecord
from runtime.engine.group import members
from runtime.engine.launch import Launcher
from runtime.engine.start import EngineDirs, EngineStart, StartFailed, utc_now
from runtime.weights.integrity import check_model
from runtime.weights.needs import Needs
from runtime.weights.prepare.run import write_digests
from runtime.weights.versions import versions
from runtime.weights.winners import WINNERS, Measured, Winners, node_name
from tests.engine.bucket import URL, holding

ARGS = ("--max-model-len=512", "--max-num-seqs=8", "--dtype=bfloat16")


class Case:
    """Starts of one model on real vLLM, whose compiled code each next one finds."""

    def __init__(self, root: Path) -> None:
        self.root, self.model = root, make_model(root / "model", shards=2)
        self.pids: set[int] = set()

    def measured(self, **seconds: float) -> None:
        digest = check_model(self.model, Needs(), self.root / "d.json", threading.Event()).digest
        found = {name.replace("__", "-"): (each,) for name, each in seconds.items()}
        measured = Measured(datetime.now(UTC), versions(), cold=True, bytes=1, seconds=found)
        Winners(self.root / WINNERS).remember(node_name(os.environ), str(digest), measured)

    async def run(self, model: str | None = None, *, stuck_after_s: float = 300.0, **spec: Any) -> StartRecord:
        """The record of one start, which is stopped again."""
        fields: dict[str, Any] = {"args": ARGS, "start_timeout_s": 400.0} | spec
        start = EngineStart(
            spec=EngineSpec(service="test/w", served_names=("test/w",), model=model or str(self.model), **fields),
            start_id="a-1",
            replica="test/w/0",
            dirs=EngineDirs(cache=self.root / "cache", log=self.root / "engine.log", run=self.root / "run"),
            asked_at=utc_now(),
            why="a test",
            spans=None,
            on_change=lambda start: self.pids.update({start.pid} if start.pid else ()),
            on_stage=lambda _: None,
            stuck_after_s=stuck_after_s,
            launcher=Launcher(measured=self.root / WINNERS),
        )
        with contextlib.suppress(StartFailed):
            engine = await start.run()
            start.admit(utc_now())
            await engine.stop(5.0)
        await start.close()
        assert not any(members(pid) for pid in self.pids)
        print(start.record.outcome, start.record.ready_s, start.record.weights, start.record.failure)
        return start.record


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def broken_streamer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation of the streamer that imports, and fails as it loads."""
    pytest.importorskip("runai_model_streamer", reason="pip install 'runai-model-streamer[s3]'")
    package = tmp_path / "broken" / "runai_model_streamer"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "def list_safetensors(path): raise OSError('the streamer is broken')\n"
        "def pull_files(*_): raise OSError('the streamer is broken')\n"
        "class SafetensorsStreamer: pass\nclass ObjectStorageModel: pass\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(package.parent))


async def test_a_shard_that_is_missing_or_of_another_model(tmp_path: Path) -> None:
    """Both cost no engine."""
    torn = Case(tmp_path)
    write_digests(torn.model, {})
    other = make_model(tmp_path / "other", shards=2, seed=7)
    shard = sorted(torn.model.glob("*.safetensors"))[1]
    shutil.copy(other / shard.name, shard)
    record = await torn.run()
    assert record.failure is not None
    assert (record.failure.cause, record.failure.permanent) == (FailureCause.MODEL_INCOMPLETE, True)
    assert f"{shard} has sha256" in record.failure.message
    shard.unlink()
    record = await torn.run()
    assert record.failure is not None
    assert f"{shard} is missing" in record.failure.message
    assert torn.pids == set()


@pytest.mark.prove
@pytest.mark.usefixtures("broken_streamer")
async def test_a_loader_that_fails_is_followed_by_the_next_in_a_fresh_process(case: Case) -> None:
    sound = await case.run()
    assert sound.outcome == "ready"
    case.measured(runai_streamer__4=1.0, default=2.0)
    case.pids.clear()
    record = await case.run()
    (case.root / WINNERS).unlink()
    assert record.outcome == "ready"
    first, second = record.weights.tries
    assert (first.loader, first.cause, first.stage) == ("runai_streamer-4", FailureCause.EXITED, Stage.WEIGHT_LOAD)
    assert "the streamer is broken" in (first.failed or "")
    assert (second.loader, second.cause) == ("default", None)
    assert len(case.pids) == 2
    assert record.golden_tokens == sound.golden_tokens
    assert record.attributed is not None
    assert record.attributed > 0.95


@pytest.fixture(scope="module")
def bucket(case: Case) -> Iterator[dict[str, str]]:
    """A moto server that holds the model, as an engine's environment."""
    pytest.importorskip("runai_model_streamer_s3", reason="pip install 'runai-model-streamer[s3]'")
    with holding(case.model) as made:
        yield made


@pytest.mark.prove
async def test_a_bucket_serves_what_the_directory_serves(case: Case, bucket: dict[str, str]) -> None:
    local = await case.run()
    streamed = await case.run(URL, env=bucket)
    assert (local.outcome, streamed.outcome) == ("ready", "ready")
    assert [each.loader for each in streamed.weights.tries] == ["runai_streamer-16"]
    assert streamed.golden_tokens == local.golden_tokens
    assert (streamed.model_digest or "").startswith("etags:")
    named = await case.run(URL, env=bucket, args=(*ARGS, "--load-format=runai_streamer"))
    assert (named.outcome, named.weights.tries[0].source) == ("ready", "named")
    assert named.golden_tokens == local.golden_tokens


class Stalling:
    """Passes on to a store, until it has sent so many bytes: then it says nothing more."""

    def __init__(self, endpoint: str, after_bytes: int) -> None:
        self._host, _, port = endpoint.removeprefix("http://").partition(":")
        self._port, self._left = int(port), after_bytes

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._host, self._port)
        up = asyncio.create_task(self._pass(reader, back, counted=False))
        down = asyncio.create_task(self._pass(there, writer, counted=True))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (up, down):
                task.cancel()
            for each in (back, writer):
                each.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool) -> None:
        while data := await reader.read(65536):
            if counted:
                self._left -= len(data)
                if self._left < 0:
                    await asyncio.Event().wait()
            writer.write(data)
            await writer.drain()


@contextlib.asynccontextmanager
async def stalling(endpoint: str, after_bytes: int) -> AsyncIterator[str]:
    server = await asyncio.start_server(Stalling(endpoint, after_bytes).serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.prove
async def test_a_bucket_that_stalls_fails_the_start_within_its_bound(case: Case, bucket: dict[str, str]) -> None:
    """From the first byte: before an engine begins. In the middle of the weights: once it shows no sign of life."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = {**bucket, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        case.pids.clear()
        record = await case.run(URL, env=env)
    assert record.failure is not None
    assert record.failure.cause is FailureCause.MODEL_MISSING
    assert "gave no answer within 10 s" in record.failure.message
    assert case.pids == set()
    size = sum(path.stat().st_size for path in case.model.iterdir())
    weights = sum(path.stat().st_size for path in case.model.glob("*.safetensors"))
    async with stalling(bucket["AWS_ENDPOINT_URL"], size - weights // 2) as endpoint:
        record = await case.run(URL, env={**bucket, "AWS_ENDPOINT_URL": endpoint}, stuck_after_s=20.0)
    assert record.failure is not None
    assert record.failure.cause in {FailureCause.STUCK, FailureCause.EXITED}
    assert record.weights.tries[-1].cause is record.failure.cause
    assert record.weights.tries[-1].source == "object"
