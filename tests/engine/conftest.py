"""Real vLLM, shared: one `pilotlight up` for every test of this folder, so that engines are started seldom."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.models import make_model
from tests.serving import Up, running, runtime, service

# Long answers need room: the tiny model's own 2048 positions end after a few seconds.
POSITIONS = 32768
ARGS = (f"--max-model-len={POSITIONS}", "--max-num-seqs=64", "--dtype=bfloat16")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = importlib.util.find_spec("vllm") is None
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.engine)
            if missing:
                item.add_marker(pytest.mark.skip(reason="vLLM is not installed: make setup"))


def tiny(path: Path, seed: int) -> Path:
    """A tiny random model with room for long answers."""
    make_model(path, seed=seed)
    config = path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"max_position_embeddings": POSITIONS}))
    return path


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Serves `test/one` and `test/two` (two seeds) on real vLLM; each goes to zero after 5 idle seconds."""
    made = Up(tmp_path_factory.mktemp("real"))
    (made.files / "runtime.yaml").write_text(runtime(*ARGS))
    for name, seed in (("one", 1), ("two", 2)):
        tiny(made.models / name, seed)
        (made.files / f"{name}.yaml").write_text(service(name, cost="5s", policy="queue: {target: 64}"))
    with running(made):
        yield made
