"""One `pilotlight up` with the fake engine, shared by the tests of this folder: none of them breaks it."""

import shlex
from collections.abc import Iterator

import pytest

from tests.fakes.model import fake_command, make_model
from tests.serving import Up, running, runtime, service


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Serves `test/chat` and `test/broken`, whose engine ends while it starts."""
    made = Up(tmp_path_factory.mktemp("access"), engine_command=shlex.join(fake_command()))
    (made.files / "runtime.yaml").write_text(runtime())
    make_model(made.models / "chat")
    make_model(made.models / "broken", exit_at={"stage": "compile", "code": 3})
    for name in ("chat", "broken"):
        (made.files / f"{name}.yaml").write_text(service(name, cost="600s"))
    with running(made):
        yield made
