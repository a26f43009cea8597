import pytest

from portal.machine import BenchFailed, busy_s, check_programs, cores

STAT = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 1 1 1 1 1 1 1 0 0\ncpu1 100 20 30 4000 500 6 7 8 90 0\nintr 5\n"


def test_the_proxy_has_a_core_of_its_own() -> None:
    plan = cores({5, 2, 3})
    assert (plan.proxy, plan.load) == (5, 3)


def test_one_core_is_too_few() -> None:
    with pytest.raises(BenchFailed, match="one CPU only"):
        cores({0})


def test_missing_programs_are_named_with_the_line_that_gets_them() -> None:
    there = {"wrk", "taskset", "setpriv"}
    with pytest.raises(BenchFailed) as failed:
        check_programs(lambda name: name if name in there else None)
    assert str(failed.value) == (
        "haproxy, caddy not found. Install them: apt-get install --no-install-recommends haproxy caddy"
    )
    check_programs(lambda name: name)


def test_two_programs_of_one_package_are_asked_for_once() -> None:
    with pytest.raises(BenchFailed, match=r"recommends util-linux$"):
        check_programs(lambda name: None if name in {"taskset", "setpriv"} else name)


def test_busy_is_all_but_idle_waiting_for_disks_and_guests() -> None:
    ticks = 100 + 20 + 30 + 6 + 7 + 8
    assert busy_s(1, STAT) == pytest.approx(ticks / 100)
    with pytest.raises(BenchFailed, match="cpu7"):
        busy_s(7, STAT)
