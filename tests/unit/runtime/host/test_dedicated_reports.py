"""The pod's process tells the controller of its starts: what arrives, and that no controller is needed."""

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.contract import Mark, Stage, StartRecord
from tests.serving import free_port
from tests.unit.runtime.host.test_dedicated import Pod, pod
from tests.unit.runtime.host.test_reporter import Heard, serve

__all__ = ["pod"]  # the fixture


@pytest.fixture
def heard() -> Iterator[Heard]:
    made = Heard(free_port(), hang=threading.Event())
    server = serve(made)
    yield made
    made.hang.set()
    server.shutdown()
    server.server_close()


def telling(heard: Heard, root: Path) -> tuple[str, ...]:
    (root / "token").write_text("of-this-pod")
    return ("--controller", heard.url, "--controller-token", str(root / "token"))


def newest(heard: Heard) -> StartRecord:
    return heard.reports[-1].starts[-1]


def test_a_start_is_told_as_it_goes_and_whole(heard: Heard, pod: Callable[..., Pod], tmp_path: Path) -> None:
    chat = pod(*telling(heard, tmp_path), start_s=1.5)
    chat.until_ready()
    heard.until(lambda: heard.reports and newest(heard).outcome == "ready", "the start that is ready")
    told = newest(heard)
    assert told.service == "team/chat"
    assert {Mark.T3, Mark.T4, Mark.T5, Mark.T8, Mark.T9} <= set(told.marks)
    assert {Stage.MODEL_CHECK, Stage.GOLDEN_PROMPT} <= {stage.stage for stage in told.stages}
    assert any(report.stage is not None for report in heard.reports), "and what was under way"
    assert set(heard.tokens) == {"Bearer of-this-pod"}
    assert len({report.host for report in heard.reports}) == 1
    chat.process.send_signal(signal.SIGTERM)
    assert chat.ended() == 0


def test_why_it_failed_is_told_before_it_ends(heard: Heard, pod: Callable[..., Pod], tmp_path: Path) -> None:
    chat = pod(*telling(heard, tmp_path), exit_at={"stage": "compile", "code": 7})
    assert chat.ended() == 1
    told = newest(heard)
    assert told.outcome == "failed"
    assert told.failure is not None
    assert told.failure.numbers["exit_code"] == 7


def test_a_controller_that_never_answers_is_not_waited_for(
    heard: Heard, pod: Callable[..., Pod], tmp_path: Path
) -> None:
    heard.answer = None
    chat = pod(*telling(heard, tmp_path))
    chat.until_ready()
    heard.until(lambda: heard.reports, "the report that it hangs in")
    chat.process.send_signal(signal.SIGTERM)
    assert chat.ended() == 0


def test_an_address_that_would_show_the_token_is_refused(pod: Callable[..., Pod]) -> None:
    chat = pod("--controller", "http://controller.pilotlight.svc")
    assert chat.ended() == 2
    assert "would tell the pod's token to everybody: write https://" in chat.err
