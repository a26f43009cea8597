"""One API server for all CLI tests of a module with a controller of each test behind it; a bench for the loop."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from activator_ext.app.api import build_api
from activator_ext.app.views import ControllerFacade
from tests.unit.app.bench import Bench
from tests.unit.app.cli_bench import TOKEN, Behind, Cli, publish, serving
from tests.unit.app.fakes import FakeController


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, Behind]]:
    behind = Behind()
    with serving(build_api(cast("ControllerFacade", behind), TOKEN, "0.1.0")) as url:
        yield url, behind


@pytest.fixture
def controller(served: tuple[str, Behind]) -> FakeController:
    _, behind = served
    behind.controller = FakeController()
    return behind.controller


@pytest.fixture
def state(tmp_path: Path, served: tuple[str, Behind], controller: FakeController) -> Path:
    publish(tmp_path, served[0])
    return tmp_path


@pytest.fixture
def cli(state: Path) -> Cli:
    return Cli(state)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "history.sqlite3")
    yield made
    made.history.close()
