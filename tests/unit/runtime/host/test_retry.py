"""When a failed service is tried again."""

from datetime import UTC, datetime, timedelta

import pytest

from runtime.contract import Failure, FailureCause, StartKind, StartRecord
from runtime.host.retry import CALM_AFTER, NO_FAILURES, SOUND_AFTER_S, Row, no_fork_after, wait_s

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def failure(cause: FailureCause = FailureCause.EXITED, *, after_s: float = 0, permanent: bool = False) -> Failure:
    return Failure(cause=cause, message="", at=AT + timedelta(seconds=after_s), permanent=permanent)


@pytest.mark.parametrize(
    ("row", "after_s", "served_s", "expect"),
    [
        pytest.param(NO_FAILURES, 0, None, 1, id="the first"),
        pytest.param(Row(3, AT), 100, None, 4, id="one more in a row"),
        pytest.param(Row(3, AT), CALM_AFTER.total_seconds(), None, 1, id="after a long calm"),
        pytest.param(Row(3, AT), 100, SOUND_AFTER_S, 1, id="of an engine that was sound"),
        pytest.param(Row(3, AT), 100, SOUND_AFTER_S - 1, 4, id="of one that was ready for a moment"),
    ],
)
def test_failures_in_a_row(row: Row, after_s: float, served_s: float | None, expect: int) -> None:
    assert row.after(failure(after_s=after_s), served_s) == Row(expect, AT + timedelta(seconds=after_s))


@pytest.mark.parametrize(
    ("given", "in_row", "expect"),
    [
        pytest.param(failure(), 1, 10, id="transient"),
        pytest.param(failure(), 4, 80, id="doubled"),
        pytest.param(failure(), 99, 300, id="capped"),
        pytest.param(failure(permanent=True), 1, 300, id="permanent"),
        pytest.param(failure(FailureCause.PORT_TAKEN), 1, 0, id="port taken"),
        pytest.param(failure(FailureCause.PORT_TAKEN), 3, 0, id="port taken thrice"),
        pytest.param(failure(FailureCause.PORT_TAKEN), 4, 80, id="port taken again and again"),
        pytest.param(failure(FailureCause.DIED_AFTER_READY), 1, 0, id="died for the first time"),
        pytest.param(failure(FailureCause.DIED_AFTER_READY), 2, 20, id="died again"),
        pytest.param(failure(FailureCause.FROZEN), 1, 0, id="frozen"),
        pytest.param(failure(FailureCause.GOLDEN_WRONG), 2, 20, id="golden wrong"),
    ],
)
def test_the_wait(given: Failure, in_row: int, expect: float) -> None:
    assert wait_s(given, in_row) == expect


@pytest.mark.parametrize(
    ("forked", "given", "before", "expect"),
    [
        pytest.param(
            True, failure(), None, "the start before it, a fork, failed (exited)", id="a fork is tried as a spawn"
        ),
        pytest.param(False, failure(), "a fork failed", None, id="the spawn failed too: the fork was not to blame"),
        pytest.param(False, failure(), None, None, id="no fork anywhere"),
        pytest.param(True, failure(permanent=True), None, None, id="would fail in any way"),
        pytest.param(True, failure(FailureCause.PORT_TAKEN), None, None, id="another program's doing"),
        pytest.param(True, failure(FailureCause.DIED_AFTER_READY), None, None, id="it had started"),
        pytest.param(False, failure(FailureCause.FROZEN), "a fork failed", "a fork failed", id="the spawn had started"),
    ],
)
def test_a_fork_that_failed_is_tried_once_as_a_spawn(
    forked: bool, given: Failure, before: str | None, expect: str | None
) -> None:
    start = StartRecord(id="a-1", service="t/s", replica="t/s/0", kind=StartKind.CACHED_NODE, forked=forked)
    assert no_fork_after(start, given, before) == expect
