"""The steps of load-tests/gpu on a CPU: that they work, not what they are for. A GPU may take minutes, not tries."""

from pathlib import Path

import pytest

from demo.models import make_model
from gpu import shared, stock
from gpu.machine import cuda_environment
from runtime.engine.capture.sizes import own_sizes

pytestmark = pytest.mark.prove


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tmp_path_factory.mktemp("model") / "tiny"
    make_model(model, seed=1, size="tiny")
    return model


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps pass on what begins with NVIDIA_, CUDA_ or NCCL_ alone: a CPU's engine needs one thing more."""
    monkeypatch.setattr(stock, "cuda_environment", lambda **more: cuda_environment(VLLM_CPU_KVCACHE_SPACE="1", **more))


def test_a_stock_engine_is_measured_with_sizes_of_ours(tmp_path: Path, tiny: Path) -> None:
    sizes = ("--cudagraph-capture-sizes", *map(str, own_sizes(8)))
    figures = stock.measure(tmp_path, tiny, sizes, (1, 4))
    assert figures["init_s"] > 0
    assert (figures["capture_s"], figures["graphs"]) == (None, 0)  # a CPU captures none
    assert set(figures["rates"]) == {"1", "4"}
    assert all(rate > 0 for rate in figures["rates"].values())


def test_a_bundle_and_a_fork_are_judged(tmp_path: Path, tiny: Path) -> None:
    figures = shared.measure(tmp_path, tiny, "cpu")
    assert (figures["verdict"], figures["fork_verdict"]) == ("used", "used")
    assert (figures["forked"], figures["fork_kind"], figures["spawned_because"]) == (True, "fork", None)
    assert figures["identical"] is True
    assert figures["restored_s"] > figures["fork_s"] > 0
