"""The kernel's count of out-of-memory kills, from a made-up /proc and cgroup tree and from this machine's."""

import os
from pathlib import Path

import pytest

from runtime.engine.oom import WINDOW_S, OomWindow, count_in, counter_of

V1, V2 = "9:cpu:/x\n4:memory:/pods/a\n0::/\n", "0::/pods/a\n"


def tree(root: Path, cgroup: str, files: dict[str, str]) -> Path | None:
    (root / "proc" / "7").mkdir(parents=True)
    (root / "proc" / "7" / "cgroup").write_text(cgroup)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return counter_of(7, root / "proc", root / "cg")


@pytest.mark.parametrize(
    ("cgroup", "files", "expect"),
    [
        pytest.param(V1, {"cg/memory/pods/a/memory.oom_control": "under_oom 0\noom_kill 3\n"}, 3, id="v1"),
        pytest.param(V1, {"cg/memory/memory.oom_control": "oom_kill 4\n"}, 4, id="v1 in a container"),
        pytest.param(V2, {"cg/pods/a/memory.events": "oom 1\noom_kill 2\noom_group_kill 0\n"}, 2, id="v2"),
        pytest.param(V2, {"cg/memory.events": "oom_kill 5\n"}, 5, id="v2 in a container"),
        pytest.param(
            V1,
            {"cg/memory/pods/a/memory.oom_control": "under_oom 0\n", "proc/vmstat": "pgfault 1\noom_kill 6\n"},
            6,
            id="an old cgroup: the machine's",
        ),
        pytest.param(V2, {"proc/vmstat": "pgfault 1\n"}, None, id="nobody counts"),
    ],
)
def test_where_it_is_counted(tmp_path: Path, cgroup: str, files: dict[str, str], expect: int | None) -> None:
    found = tree(tmp_path, cgroup, files)
    assert (None if found is None else count_in(found)) == expect


def test_a_process_that_is_gone(tmp_path: Path) -> None:
    assert counter_of(7, tmp_path, tmp_path) is None


def test_this_machine_counts() -> None:
    found = counter_of(os.getpid())
    assert found is not None
    assert count_in(found) is not None


def test_only_kills_of_the_last_minute_explain_an_end(tmp_path: Path) -> None:
    counter = tmp_path / "memory.events"
    window = OomWindow(counter)
    for now_s, count, expect in (
        (0.0, 5, 0),
        (5.0, 6, 1),
        (WINDOW_S, 6, 1),
        (WINDOW_S + 4.9, 6, 1),
        (WINDOW_S + 5.1, 6, 0),
        (WINDOW_S + 10, 8, 2),
    ):
        counter.write_text(f"oom_kill {count}\n")
        window.take(now_s)
        assert window.kills == expect, now_s


def test_without_a_counter_nothing_is_known(tmp_path: Path) -> None:
    for window in (OomWindow(None), OomWindow(tmp_path / "gone")):
        window.take(1.0)
        assert window.kills is None
