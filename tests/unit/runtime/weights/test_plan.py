import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from runtime.contract import FailureCause, Stage
from runtime.weights.loaders import BY_NAME, LOADERS, PEER, PLAIN, Here, streamer, why_not
from runtime.weights.memory import Memory
from runtime.weights.peer import read_outcome
from runtime.weights.plan import Wanted, attempts, next_attempt, streamer_memory_bytes

GIB = 2**30
STREAMER = frozenset({"runai_model_streamer"})
CPU = Here(modules=STREAMER, cuda=False, url=False, layout="safetensors")
GPU = Here(
    modules=STREAMER | {"fastsafetensors", "instanttensor", "modelexpress"},
    cuda=True,
    url=False,
    layout="safetensors",
    peer_server="mx:8001",
)
DIR, URL = "/models/x", "s3://models/x"


def wanted(here: Here = CPU, directory: str | None = DIR, url: str | None = None, **more: Any) -> Wanted:
    plain: dict[str, Any] = {
        "args": (),
        "env": {},
        "memory": Memory(100 * GIB),
        "weight_bytes": 10 * GIB,
        "medium": "nvme",
    }
    return Wanted(here=here, directory=directory, url=url, **(plain | more))


def order(given: Wanted) -> list[str]:
    return [f"{each.source}:{each.loader}" for each in attempts(given)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(wanted(), ["local:default"], id="a directory, nothing measured"),
        pytest.param(
            wanted(url=URL), ["local:default", "object:runai_streamer-16"], id="hot local copy before the bucket"
        ),
        pytest.param(wanted(directory=None, url=URL), ["object:runai_streamer-16"], id="a bucket only"),
        pytest.param(
            wanted(GPU, url=URL),
            ["local:default", "object:runai_streamer-16", "peer:modelexpress"],
            id="all sources, the issue's order",
        ),
        pytest.param(
            wanted(medium="fuse"),
            ["local:default", "local:prefetch", "local:runai_streamer-16"],
            id="behind FUSE others follow the plain loader",
        ),
        pytest.param(
            wanted(Here(frozenset(), False, False, "safetensors"), medium="network"),
            ["local:default", "local:prefetch"],
            id="no streamer installed",
        ),
        pytest.param(
            wanted(local_seconds={"runai_streamer-8": 3.0, "default": 4.4, "lazy": 4.0}),
            ["local:runai_streamer-8", "local:lazy", "local:default"],
            id="measured: fastest first",
        ),
        pytest.param(
            wanted(local_seconds={"runai_streamer-8": 3.0, "eager": 3.5, "lazy": 4.0, "runai_streamer-4": 5.0}),
            ["local:runai_streamer-8", "local:eager", "local:default"],
            id="of each kind the best only",
        ),
        pytest.param(
            wanted(GPU, url=URL, local_seconds={"default": 9.0}, url_seconds={"runai_streamer-32": 5.0}),
            ["object:runai_streamer-32", "local:default", "peer:modelexpress"],
            id="a fast bucket before a slow disk",
        ),
        pytest.param(
            wanted(url=URL, url_seconds={"runai_streamer-32": 5.0}),
            ["local:default", "object:runai_streamer-32"],
            id="a measured bucket not before a copy that nobody has timed",
        ),
        pytest.param(
            wanted(url=URL, local_seconds={"eager": 9.0, "default": 10.0}, url_seconds={"runai_streamer-32": 5.0}),
            ["object:runai_streamer-32", "local:eager", "local:default"],
            id="a source's ways stay together",
        ),
        pytest.param(
            wanted(GPU, local_seconds={"modelexpress": 1.0, "default": 2.0}),
            ["peer:modelexpress", "local:default"],
            id="a measured peer",
        ),
        pytest.param(
            wanted(local_seconds={"fastsafetensors": 1.0, "gone": 0.5, "default": 2.0}),
            ["local:default"],
            id="measured elsewhere, unusable here",
        ),
        pytest.param(
            wanted(dataclasses.replace(CPU, layout="sharded")), ["local:sharded_state"], id="prepared for each rank"
        ),
        pytest.param(
            wanted(dataclasses.replace(CPU, layout="sharded"), None, URL),
            ["object:runai_streamer_sharded"],
            id="prepared, in a bucket",
        ),
        pytest.param(
            wanted(Here(frozenset(), False, False, "safetensors"), None, URL),
            ["local:default"],
            id="nothing can read it: the plain loader will say why",
        ),
        pytest.param(wanted(args=("--load-format", "auto")), ["local:default"], id="auto names nothing"),
        *(
            pytest.param(wanted(url=URL, args=args), ["named:named"], id=f"named: {args[0]}")
            for args in (
                ("--load-format=runai_streamer",),
                ("--load_format", "dummy"),
                ("--safetensors-load-strategy=eager",),
                ("--model-loader-extra-config", "{}"),
            )
        ),
    ],
)
def test_the_order_of_attempts(given: Wanted, expected: list[str]) -> None:
    assert order(given) == expected


def test_an_attempt_says_why() -> None:
    first, second = attempts(wanted(url=URL, local_seconds={"default": 2.34}))
    assert first.why == "measured 2.3 s on this node"
    assert second.why == "not measured here: object in turn"


def test_neither_directory_nor_url() -> None:
    with pytest.raises(ValueError, match="a directory or a URL"):
        attempts(wanted(directory=None))


def test_what_an_attempt_at_a_bucket_passes_on() -> None:
    env = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "a"}
    (attempt,) = attempts(wanted(directory=None, url=URL, env=env))
    assert attempt.model == URL
    assert attempt.args == (
        "--load-format=runai_streamer",
        '--model-loader-extra-config={"concurrency": 16, "memory_limit": 10737418240}',
    )
    assert attempt.env == {
        "RUNAI_STREAMER_MEMORY_LIMIT": "10737418240",
        "RUNAI_STREAMER_LOG_TO_STDERR": "1",
        "RUNAI_STREAMER_S3_ENDPOINT": "http://127.0.0.1:9",
        "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": "0",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def test_the_services_own_variables_win() -> None:
    env = {"AWS_ENDPOINT_URL": "http://x", "RUNAI_STREAMER_S3_ENDPOINT": "http://y"}
    (attempt,) = attempts(wanted(directory=None, url=URL, env=env))
    assert "RUNAI_STREAMER_S3_ENDPOINT" not in attempt.env


def test_the_services_own_bounds_of_the_streamer_win() -> None:
    env = {"RUNAI_STREAMER_MEMORY_LIMIT": "7", "RUNAI_STREAMER_CONCURRENCY": "3"}
    (attempt,) = attempts(wanted(directory=None, url=URL, env=env))
    assert attempt.args == ("--load-format=runai_streamer",), "options would overwrite the variables"
    (attempt, *_) = attempts(wanted(local_seconds={"runai_streamer-8": 1.0}, env={"RUNAI_STREAMER_CONCURRENCY": "3"}))
    assert attempt.args[1] == f'--model-loader-extra-config={{"memory_limit": {4 * GIB}}}'


def test_a_streamer_that_the_service_names_gets_a_bound() -> None:
    named = ("--load-format", "runai_streamer")
    (attempt,) = attempts(wanted(directory=None, url=URL, args=named, memory=Memory(8 * GIB)))
    assert (attempt.args, attempt.env) == ((), {"RUNAI_STREAMER_MEMORY_LIMIT": str(4 * GIB)})
    (attempt,) = attempts(wanted(args=named))
    assert attempt.env == {"RUNAI_STREAMER_MEMORY_LIMIT": str(4 * GIB)}
    own = (*named, '--model-loader-extra-config={"memory_limit": 5}')
    assert attempts(wanted(args=own))[0].env == {}
    assert attempts(wanted(args=named, env={"RUNAI_STREAMER_MEMORY_LIMIT": "5"}))[0].env == {}


def test_ranks_of_a_gpu_machine_read_a_bucket_once() -> None:
    (attempt, _) = attempts(wanted(dataclasses.replace(GPU, peer_server=None), url=URL, ranks=4))[::-1]
    assert '"distributed": true' in attempt.args[1]
    (attempt,) = attempts(wanted(dataclasses.replace(CPU), None, URL, ranks=4))
    assert "distributed" not in attempt.args[1]


@pytest.mark.parametrize(
    ("given", "remote", "distributed", "expected"),
    [
        pytest.param(wanted(), True, False, 10 * GIB, id="no more than the weights"),
        pytest.param(wanted(memory=Memory(8 * GIB)), True, False, 4 * GIB, id="half of what is free"),
        pytest.param(wanted(), False, False, 4 * GIB, id="a local disk needs a few buffers"),
        pytest.param(wanted(ranks=4, memory=Memory(8 * GIB)), True, False, GIB, id="ranks share"),
        pytest.param(wanted(ranks=4, memory=Memory(8 * GIB)), True, True, 4 * GIB, id="distributed: the node's total"),
        pytest.param(
            wanted(memory=Memory(GIB), largest_tensor_bytes=2 * GIB), True, False, 2 * GIB, id="the largest tensor"
        ),
        pytest.param(wanted(memory=Memory(None)), True, False, GIB // 2, id="memory unknown"),
        pytest.param(wanted(weight_bytes=None, memory=Memory(8 * GIB)), True, False, 4 * GIB, id="weights unknown"),
        pytest.param(wanted(weight_bytes=0), True, False, 1, id="never 0, which means another thing"),
    ],
)
def test_the_streamers_memory(given: Wanted, remote: bool, distributed: bool, expected: int) -> None:
    assert streamer_memory_bytes(given, remote=remote, distributed=distributed) == expected


PLAN = attempts(wanted(local_seconds={"eager": 1.0, "runai_streamer-4": 2.0, "default": 3.0}))


@pytest.mark.parametrize(
    ("tried", "cause", "stage", "expected"),
    [
        ((), FailureCause.EXITED, Stage.WEIGHT_LOAD, "eager"),
        (("eager",), FailureCause.EXITED, Stage.WEIGHT_LOAD, "runai_streamer-4"),
        (("runai_streamer-4",), FailureCause.NO_MEMORY, Stage.WEIGHT_LOAD, "default"),
        (("eager", "runai_streamer-4"), FailureCause.STUCK, Stage.MODEL_CONSTRUCTION, "default"),
        (("eager", "runai_streamer-4", "default"), FailureCause.EXITED, Stage.WEIGHT_LOAD, None),
        (("eager",), FailureCause.MODEL_INCOMPLETE, Stage.WEIGHT_LOAD, None),
        (("eager",), FailureCause.EXITED, Stage.COMPILE, None),
        (("eager",), FailureCause.EXITED, None, None),
        (("eager",), FailureCause.PORT_TAKEN, Stage.CONFIGURATION, None),
    ],
)
def test_what_follows_a_failure(
    tried: tuple[str, ...], cause: FailureCause, stage: Stage | None, expected: str | None
) -> None:
    found = next_attempt(PLAN, tried, cause, stage)
    assert (found.loader if found else None) == expected


@pytest.mark.parametrize(
    ("name", "here", "words"),
    [
        ("fastsafetensors", CPU, "needs an NVIDIA GPU"),
        ("fastsafetensors", dataclasses.replace(GPU, modules=frozenset()), "not installed: pip install 'fastsafe"),
        ("runai_streamer-4", dataclasses.replace(CPU, modules=frozenset()), "pip install 'runai-model-streamer>=0.17"),
        ("modelexpress", dataclasses.replace(GPU, peer_server=None), "set MODEL_EXPRESS_URL"),
        ("sharded_state", CPU, "weights prepare --tensor-parallel"),
        ("tensorizer", dataclasses.replace(CPU, modules=frozenset({"tensorizer"})), "tensorize_vllm_model"),
        ("lazy", dataclasses.replace(CPU, url=True), "reads no URL"),
        ("default", dataclasses.replace(CPU, layout="sharded"), "not a checkpoint"),
    ],
)
def test_what_cannot_be_used_is_named(name: str, here: Here, words: str) -> None:
    assert words in (why_not(BY_NAME[name], here) or "")


def test_what_can_be_used() -> None:
    assert [each.name for each in LOADERS if why_not(each, CPU) is None] == [
        *("default", "lazy", "eager", "prefetch", "threads-8"),
        *(f"runai_streamer-{n}" for n in (1, 2, 4, 8, 16, 32)),
    ]
    assert {PEER.name, "fastsafetensors", "instanttensor"} <= {e.name for e in LOADERS if why_not(e, GPU) is None}


def test_arguments() -> None:
    assert PLAIN.args() == ()
    assert BY_NAME["eager"].args() == ("--load-format=safetensors", "--safetensors-load-strategy=eager")
    assert streamer(3).args({"memory_limit": 5})[1] == (
        '--model-loader-extra-config={"concurrency": 3, "memory_limit": 5}'
    )
    assert len({each.name for each in LOADERS}) == len(LOADERS)


RDMA = "(Worker_TP{r} pid=7) INFO 11-30 [x.py:1] [Worker {r}] Trying strategy: rdma"


@pytest.mark.parametrize(
    ("lines", "used", "fell_back", "words"),
    [
        pytest.param([], {}, 0, "did not say", id="nothing said"),
        pytest.param([RDMA.format(r=0), RDMA.format(r=1)], {0: "rdma", 1: "rdma"}, 0, "2 of 2 ranks", id="from a peer"),
        pytest.param(
            [
                RDMA.format(r=0),
                RDMA.format(r=1),
                "[Worker 1] Strategy rdma failed, trying next: no route",
                "[Worker 1] Trying strategy: model_streamer",
                "[Worker 1] Strategy model_streamer raised unexpected error, trying next: boom",
                "[Worker 1] Trying strategy: default",
            ],
            {0: "rdma", 1: "default"},
            1,
            "1 of 2 ranks from a peer; strategies default, rdma (rdma: no route)",
            id="one rank fell back",
        ),
        pytest.param(["[Worker 0] Trying strategy: default"], {0: "default"}, 1, "0 of 1", id="no peer was there"),
    ],
)
def test_where_a_peer_start_got_its_weights(
    lines: list[str], used: Mapping[int, str], fell_back: int, words: str
) -> None:
    outcome = read_outcome(lines)
    assert (outcome.used, outcome.fell_back) == (used, fell_back)
    assert words in str(outcome)
