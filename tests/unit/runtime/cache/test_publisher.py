"""Who publishes: a table of cases, and what holds for all of them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.cache.locks import from_json, to_json
from runtime.cache.publisher import (
    Decision,
    Follow,
    GoWithout,
    Hold,
    LockRecord,
    TakeOver,
    Terms,
    decide,
    released,
)

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
TERMS = Terms(ttl_s=60, skew_s=5)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


THEIRS = LockRecord("them", 4, NOON, 60)
MINE = LockRecord("me", 4, NOON, 60)


@pytest.mark.parametrize(
    ("now_s", "record", "wait_until_s", "decision"),
    [
        # nobody ever published
        (0, None, 100, TakeOver(LockRecord("me", 1, at(0), 60))),
        (0, None, -1, TakeOver(LockRecord("me", 1, at(0), 60))),
        # it was given up
        (1, released(THEIRS, at(1)), 100, TakeOver(LockRecord("me", 5, at(1), 60))),
        # another lives: wait until it would be dead, or as long as we may
        (10, THEIRS, 1000, Follow(at(65), "them")),
        (10, THEIRS, 30, Follow(at(30), "them")),
        # it lives longer than we may wait
        (30, THEIRS, 30, GoWithout("them")),
        (10, THEIRS, 5, GoWithout("them")),
        # it stopped renewing: expired by its clock, but not beyond all doubt by ours
        (60, THEIRS, 1000, Follow(at(65), "them")),
        (64.999, THEIRS, 1000, Follow(at(65), "them")),
        (64.999, THEIRS, 60, GoWithout("them")),
        (65, THEIRS, 1000, TakeOver(LockRecord("me", 5, at(65), 60))),
        (65, THEIRS, -1, TakeOver(LockRecord("me", 5, at(65), 60))),  # no wait needed
        # its clock runs ahead of ours
        (-3, THEIRS, 1000, Follow(at(65), "them")),
        # it promised a longer or shorter life than we would
        (65, replace(THEIRS, ttl_s=600), 1000, Follow(at(605), "them")),
        (15, replace(THEIRS, ttl_s=10), 1000, TakeOver(LockRecord("me", 5, at(15), 60))),
        # it is ours
        (0, MINE, 0, Hold(MINE, at(20))),
        (30, MINE, 0, Hold(replace(MINE, renewed_at=at(30)), at(20))),
        # ours, but we slept through its end: whoever waits for it is still waiting
        (60, MINE, 1000, TakeOver(LockRecord("me", 5, at(60), 60))),
        (65, MINE, 1000, TakeOver(LockRecord("me", 5, at(65), 60))),
        # our clock was set back: a heartbeat never goes backwards
        (-10, MINE, 0, Hold(MINE, at(20))),
    ],
)
def test_the_table(now_s: float, record: LockRecord | None, wait_until_s: float, decision: Decision) -> None:
    assert decide(at(now_s), record, "me", at(wait_until_s), TERMS) == decision


RECORDS = st.none() | st.builds(
    LockRecord,
    st.none() | st.sampled_from(["me", "them"]),
    st.integers(1, 10**9),
    st.floats(-1e6, 1e6).map(at),
    st.floats(0.1, 1e5),
)


@given(RECORDS, st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_whoever_follows_looks_again_later_and_within_the_budget(
    record: LockRecord | None, now_s: float, wait_until_s: float
) -> None:
    now, wait_until = at(now_s), at(wait_until_s)
    match decide(now, record, "me", wait_until, TERMS):
        case Follow(until):
            assert now < until <= wait_until
            assert not isinstance(decide(until, record, "me", until, TERMS), Follow)  # then it ends, one way or other
        case Hold(renewed, renew_at):
            assert record is not None
            assert (renewed.holder, renewed.token) == ("me", record.token)
            assert renewed.expires_at >= min(record.expires_at, now + timedelta(seconds=TERMS.ttl_s))
            assert renew_at < record.expires_at
        case TakeOver(taken):
            assert taken.token == (record.token if record is not None else 0) + 1
            assert taken.holder == "me"
        case GoWithout():
            assert now >= wait_until


class Lock:
    """A lock with compare-and-swap, and the truth about who believes to hold it at each instant of true time."""

    def __init__(self) -> None:
        self.record: LockRecord | None = None
        self.version = 0

    def write(self, record: LockRecord, expected: int) -> bool:
        if expected != self.version:
            return False
        self.record, self.version = record, self.version + 1
        return True


STEP = st.tuples(
    st.integers(0, 2),  # who moves
    st.sampled_from([0, 1, 19, 20, 55, 58, 60, 62, 65, 70]) | st.floats(0, 70),  # true seconds since the last move
    st.sampled_from(["move", "move", "move", "read only", "write late", "give up", "forget"]),
)


EDGE_S = TERMS.skew_s / 2 * 0.999
SKEWS = st.lists(st.sampled_from([-EDGE_S, 0.0, EDGE_S]) | st.floats(-EDGE_S, EDGE_S), min_size=3, max_size=3)


@settings(max_examples=500)
@given(SKEWS, st.lists(STEP, max_size=40))
def test_never_two_holders_and_the_token_grows(skews: list[float], steps: list[tuple[int, float, str]]) -> None:
    """Three hosts with clocks up to the stated skew apart, in any order, some late with a write, some dying."""
    lock, now_s, tokens = Lock(), 0.0, [0]
    believes: dict[int, LockRecord] = {}  # what each believes to hold, as of its last successful write
    late: dict[int, tuple[LockRecord, int]] = {}

    def wrote(who: int, record: LockRecord, expected: int) -> None:
        if lock.write(record, expected):
            believes[who] = record
            assert record.token >= tokens[-1]
            if record.token > tokens[-1] or record.holder is None:
                tokens.append(record.token)

    for who, passed_s, act in steps:
        now_s += passed_s
        now = at(now_s + skews[who])
        match act:
            case "write late" if who in late:
                wrote(who, *late.pop(who))
            case "give up" if who in believes and now < believes[who].expires_at:
                wrote(who, released(believes[who], now), lock.version if lock.record == believes[who] else -1)
                believes.pop(who, None)
            case "forget":  # it died, and the next one has its name, which is worse than in life
                believes.pop(who, None)
                late.pop(who, None)
            case _:
                decision = decide(now, lock.record, str(who), now, TERMS)
                if isinstance(decision, Hold | TakeOver):
                    if act == "read only":
                        late[who] = (decision.record, lock.version)
                    else:
                        wrote(who, decision.record, lock.version)
        holders = [
            each
            for each, record in believes.items()
            if record.holder is not None and at(now_s + skews[each]) < record.expires_at
        ]
        assert len(holders) <= 1, (holders, believes)
    assert tokens == sorted(tokens)


@pytest.mark.parametrize(
    "bad",
    [
        {"holder": ""},
        {"token": 0},
        {"ttl_s": 0},
        {"ttl_s": float("inf")},
        {"ttl_s": float("nan")},
        {"renewed_at": datetime(2026, 3, 2)},  # noqa: DTZ001  # the point of the case
    ],
)
def test_what_is_no_record_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"no lock record|aware"):
        replace(THEIRS, **bad)  # type: ignore[arg-type]  # one field at a time


@pytest.mark.parametrize("bad", [{"ttl_s": 0.0}, {"skew_s": -1.0}])
def test_terms_that_make_no_sense_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be > 0"):
        Terms(**bad)


def test_since_when_a_turn_is_held() -> None:
    """Told to who waits, and kept through every heartbeat; records of older hosts do not say."""
    taken = decide(at(0), released(THEIRS, at(0)), "me", at(0), TERMS)
    assert isinstance(taken, TakeOver)
    assert taken.record.begun_at == at(0)
    renewed = decide(at(20), taken.record, "me", at(20), TERMS)
    assert isinstance(renewed, Hold)
    assert (renewed.record.begun_at, renewed.record.renewed_at) == (at(0), at(20))
    for record in (renewed.record, THEIRS):
        read = from_json(to_json(record))
        assert read == record
        assert read.begun_at == record.begun_at
    with pytest.raises(ValueError, match="begin of a turn"):
        replace(MINE, begun_at=datetime(2026, 3, 2, 12))  # noqa: DTZ001  (what is refused)
