"""What `up` is told about starts reaches its host, also where an earlier `up` has left one."""

import os
import shlex
import signal
from pathlib import Path

from tests.fakes.model import fake_command, make_model
from tests.serving import Up, runtime, service


class Spawning(Up):
    """An `up` that is told not to fork."""

    def argv(self) -> list[str]:
        return [*super().argv(), "--no-fork"]


def test_a_host_that_an_up_left_is_not_kept_with_other_options(tmp_path: Path) -> None:
    plain = Up(tmp_path, engine_command=shlex.join(fake_command()))
    make_model(plain.models / "chat")
    (plain.files / "a.yaml").write_text(runtime() + service("chat"))
    plain.begin()
    assert plain.process is not None
    os.kill(plain.process.pid, signal.SIGKILL)
    plain.process.wait()
    other = Spawning(tmp_path, engine_command=shlex.join(fake_command()))
    other.portal = plain.portal
    other.begin()
    try:
        said = other.said()
        assert "the host of an earlier `up` was begun with other options" in said
        assert "the portal of an earlier `up` still lives" in said
        assert "the host of an earlier `up` still lives" not in said
        hosts = [process.cmdline() for process in other.processes() if "runtime.host" in process.cmdline()]
        assert [argv[-3] for argv in hosts] == ["--no-fork"]
    finally:
        assert other.end() == 0
