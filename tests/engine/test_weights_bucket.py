"""The real streamer reads a model from a moto server on loopback with what the plan passes on; a store that stalls."""

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from demo.models import make_model
from runtime.weights.bench.bound import bucket_bound
from runtime.weights.bench.model import Load
from runtime.weights.bench.process import Stage
from runtime.weights.here import here
from runtime.weights.memory import read_memory
from runtime.weights.needs import Needs
from runtime.weights.plan import Attempt, Wanted, attempts
from runtime.weights.remote import check_remote
from tests.engine.bucket import URL, holding

pytestmark = pytest.mark.prove


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("bucket") / "model", shards=2)


@pytest.fixture(scope="module")
def env(model: Path) -> Iterator[dict[str, str]]:
    """A moto server that holds the model, as an engine's environment."""
    pytest.importorskip("runai_model_streamer", reason="pip install 'runai-model-streamer[s3]'")
    with holding(model) as made:
        yield made


def planned(env: dict[str, str], size: int, largest: int) -> Attempt:
    wanted = Wanted(
        here=here(URL, env),
        directory=None,
        url=URL,
        args=(),
        env=env,
        memory=read_memory(),
        weight_bytes=size,
        largest_tensor_bytes=largest,
    )
    return attempts(wanted)[0]


async def test_the_streamer_reads_what_the_check_has_seen(model: Path, env: dict[str, str], tmp_path: Path) -> None:
    facts = await check_remote(URL, Needs(), env)
    assert facts.weight_bytes == sum(path.stat().st_size for path in model.glob("*.safetensors"))
    bound = await bucket_bound(URL, env, facts.shards)
    assert bound.bytes == facts.weight_bytes
    attempt = planned(env, facts.weight_bytes, facts.largest_tensor_bytes)
    whole = {**os.environ, "VLLM_PLUGINS": "", **env, **attempt.env}
    options = {"concurrency": 16, "memory_limit": int(attempt.env["RUNAI_STREAMER_MEMORY_LIMIT"])}
    load = Load(URL, "runai_streamer", {"model_loader_extra_config": options})
    with (tmp_path / "log").open("wb") as log, Stage(whole, log) as stage:
        streamed = stage.load(load, 120)
        assert streamed.error is None
        plain = stage.load(Load(str(model), "safetensors"), 120)
        assert (streamed.tensors, streamed.bytes) == (plain.tensors, plain.bytes)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            nowhere = f"http://127.0.0.1:{silent.getsockname()[1]}"
            stalls = replace(load, env={"RUNAI_STREAMER_S3_ENDPOINT": nowhere, "AWS_ENDPOINT_URL": nowhere})
            late = stage.load(stalls, 5)
        assert late.error is not None, "bounded, whatever the streamer does with a store that says nothing"
    assert "Overall time to stream" in (tmp_path / "log").read_text(errors="replace"), "the streamer's own evidence"
