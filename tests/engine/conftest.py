"""Real vLLM, shared: one `pilotlight up` for every test of this folder, so that engines are started seldom."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.models import Size, make_model
from tests.serving import Up, running, runtime, service

ARGS = ("--max-model-len=8192", "--max-num-seqs=64", "--dtype=bfloat16")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = importlib.util.find_spec("vllm") is None
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.engine)
            if missing:
                item.add_marker(pytest.mark.skip(reason="vLLM is not installed: make setup"))


def model(path: Path, seed: int, size: Size = "tiny") -> Path:
    """A random model with room for answers of 20 s."""
    make_model(path, seed=seed, size=size)
    config = path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"max_position_embeddings": 8192}))
    return path


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Serves `test/one`, `test/two` (two seeds) and `test/wide` (slower) on real vLLM, each to zero after 5 s idle."""
    made = Up(tmp_path_factory.mktemp("real"))
    (made.files / "runtime.yaml").write_text(runtime(*ARGS))
    sizes: dict[str, Size] = {"one": "tiny", "two": "tiny", "wide": "wide"}
    for seed, (name, size) in enumerate(sizes.items()):
        model(made.models / name, seed, size)
        (made.files / f"{name}.yaml").write_text(service(name, cost="5s", policy="queue: {target: 64}"))
    with running(made):
        yield made
