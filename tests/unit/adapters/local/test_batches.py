"""containerConcurrency becomes vLLM's --max-num-seqs, unless the service says one, or it could not start with it."""

import pytest

from activator_ext.adapters.local.batches import MOST, limited
from tests.unit.adapters.local.build import RUNTIME, Files, service

LIMITED: dict[str, tuple[tuple[str, ...], int | None]] = {
    "no other arguments": ((), 8),
    "others": (("--dtype=float32", "--max-model-len", "512"), 8),
    "as many as vLLM's own": ((), MOST),
    "steps of as many tokens": (("--max-num-batched-tokens", "8"), 8),
    "steps of more": (("--max-num-batched-tokens=2k",), 200),
    "a value that looks like it": (("--lora-modules", "a=--max-num-seqs"), 8),
}


@pytest.mark.parametrize(("args", "concurrency"), LIMITED.values(), ids=LIMITED.keys())
def test_a_limit_of_requests_is_the_size_of_the_batch(args: tuple[str, ...], concurrency: int) -> None:
    assert limited(args, concurrency) == (*args, f"--max-num-seqs={concurrency}")


ALONE: dict[str, tuple[tuple[str, ...], int | None]] = {
    "absent": ((), None),
    "0 is no limit": ((), 0),
    "more than vLLM's own": ((), MOST + 1),
    "its own": (("--max-num-seqs", "4"), 8),
    "its own, joined": (("--max-num-seqs=4",), 8),
    "its own, with underscores": (("--max_num_seqs=4",), 8),
    "its own, abbreviated": (("--max-num-s=4",), 8),
    "steps of fewer tokens": (("--max-num-batched-tokens", "4"), 8),
    "steps of fewer tokens, abbreviated": (("--max_num_batched=4",), 8),
    "the last one counts": (("--max-num-batched-tokens=64", "--max-num-batched-tokens=4"), 8),
}


@pytest.mark.parametrize(("args", "concurrency"), ALONE.values(), ids=ALONE.keys())
def test_left_alone(args: tuple[str, ...], concurrency: int | None) -> None:
    assert limited(args, concurrency) == args


def test_from_the_files_to_the_engine(files: Files) -> None:
    loaded = files.load(runtime=RUNTIME, f=service(predictor="containerConcurrency: 8\n", model="args: [--seed=1]\n"))
    assert loaded.findings == ()
    assert [s.spec.args for s in loaded.services] == [("--seed=1", "--max-num-seqs=8")]
