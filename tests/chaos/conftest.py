"""An `up` to break, and the row that each proof leaves for the table of `make prove`."""

import os
import random
import secrets
from pathlib import Path

import pytest

from tests.chaos.kit import ChaosUp
from tests.chaos.rows import Row


@pytest.fixture
def up(tmp_path: Path) -> ChaosUp:
    """Not begun yet, without services; the test writes its files and enters `running(up)`."""
    return ChaosUp(tmp_path)


@pytest.fixture
def row(request: pytest.FixtureRequest) -> Row:
    """Takes what the table shows of this proof."""
    return Row(request.node.user_properties)


@pytest.fixture
def chance(row: Row, request: pytest.FixtureRequest) -> random.Random:
    """Chance that can be had again: PILOTLIGHT_SEED=N. The short slice always has the same; `make prove` a new one."""
    given = os.environ.get("PILOTLIGHT_SEED")
    fixed = request.node.get_closest_marker("prove") is None
    seed = int(given) if given else 4 if fixed else secrets.randbelow(2**31)
    row.tell(seed=seed)
    print(f"seed {seed}: PILOTLIGHT_SEED={seed} has it again")
    return random.Random(f"{seed} {request.node.nodeid}")
