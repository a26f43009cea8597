import pytest

from portal import rounds


def number(value: float) -> float:
    return value


def test_each_round_begins_with_another_and_all_are_heard_in_order() -> None:
    asked: list[str] = []
    heard: list[tuple[int, list[str]]] = []

    def measure(name: str) -> int:
        asked.append(name)
        return len(asked)

    played = rounds.play(["a", "b", "c"], 4, measure, lambda n, samples: heard.append((n, list(samples))))
    assert "".join(asked) == "abc" + "bca" + "cab" + "abc"
    assert played[1] == {"a": 6, "b": 4, "c": 5}
    assert heard == [(n, ["a", "b", "c"]) for n in (1, 2, 3, 4)]


def test_a_machine_that_becomes_slower_changes_no_comparison() -> None:
    speeds = [1.0, 0.5, 0.1]
    played = [{"ours": 80.0 * s, "peer": 100.0 * s} for s in speeds]
    assert rounds.ratio(played, "ours", "peer", number) == pytest.approx(0.8)
    # Medians of each alone, from other rounds, would compare 80 with 10.
    mixed = [{"ours": 80.0, "peer": 100.0}, {"ours": 8.0, "peer": 10.0}, {"ours": 80.0, "peer": 100.0}]
    assert rounds.ratio(mixed, "ours", "peer", number) == pytest.approx(0.8)


def test_one_spoilt_round_does_not_count() -> None:
    played = [{"ours": 0.14, "direct": 0.01}, {"ours": 9.0, "direct": 0.01}, {"ours": 0.12, "direct": 0.01}]
    assert rounds.difference(played, "ours", "direct", number) == pytest.approx(0.13)
    assert rounds.middle(played, "ours", number) == 0.14
