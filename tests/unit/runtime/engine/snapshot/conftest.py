"""A host's images, and a small sealable engine; without a CRIU that works here, what needs one is skipped by name."""

import os
import sys
from pathlib import Path

import pytest

from runtime.contract import EngineSpec
from runtime.engine.snapshot.criu import Criu, NoCriuError, find_criu
from runtime.engine.snapshot.hosted import Snapshots
from runtime.engine.snapshot.images import Images
from runtime.engine.start import utc_now
from tests.fakes.model import make_model

SEALABLE = (sys.executable, "-P", "-m", "tests.fakes.sealable")
ROOT = Path(__file__).parents[5]


@pytest.fixture(scope="session")
def criu() -> Criu:
    try:
        return find_criu(os.environ)
    except NoCriuError as error:
        pytest.skip(str(error))


@pytest.fixture
def snapshots(tmp_path: Path, criu: Criu) -> Snapshots:
    return Snapshots(Images(tmp_path / "images"), criu, utc_now)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineSpec:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # the fake is no installed package
    model = make_model(tmp_path / "model", seed=3)
    return EngineSpec(service="test/snap", served_names=("test/snap",), model=str(model), start_timeout_s=60)
