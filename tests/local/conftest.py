"""`pilotlight up` with the fake engine (tests/fakes/engine.py); tests/engine does the same with real vLLM."""

import shlex
from pathlib import Path

import pytest

from tests.fakes.model import fake_command
from tests.serving import Up, runtime


@pytest.fixture
def up(tmp_path: Path) -> Up:
    """Not begun yet; the test writes its files and enters `running(up)`."""
    made = Up(tmp_path, engine_command=shlex.join(fake_command()))
    (made.files / "runtime.yaml").write_text(runtime())
    return made
