"""The watch over the process table, on real processes shaped like an `up` with its host and an engine."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from demo.watch import Watch

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)

# Each level prints once its child is there, then waits for the end of its input.
ENGINE = "import sys; print('there', flush=True); sys.stdin.read()"
PARENT = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', *{arguments!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
    "child.stdout.readline(); print('there', flush=True); sys.stdin.read(); child.stdin.close(); child.wait()\n"
)


def family(*, with_host: bool, between: tuple[str, ...] | None = None) -> subprocess.Popen[bytes]:
    """The `up`, a host or another child, and below it the engine; `between` them one more, with these last words."""
    lowest = [ENGINE] if between is None else [PARENT.format(arguments=[ENGINE]), *between]
    middle = PARENT.format(arguments=lowest)
    tail = ["-m", "runtime.host"] if with_host else []
    top = PARENT.format(arguments=[middle, *tail])
    process = subprocess.Popen([sys.executable, "-c", top], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait()
    process.stdout.close()


@pytest.fixture
def up() -> Iterator[subprocess.Popen[bytes]]:
    process = family(with_host=True)
    yield process
    end(process)


def test_an_engine_is_what_lives_under_a_host(up: subprocess.Popen[bytes]) -> None:
    sample = Watch(up.pid, clock=lambda: NINE).look()

    assert sample.at == NINE
    assert sample.engine_processes == 1
    assert sample.engine_bytes > 0


def test_other_descendants_are_no_engines() -> None:
    process = family(with_host=False)
    try:
        assert Watch(process.pid).look().engine_processes == 0
    finally:
        end(process)


def test_the_holder_of_imports_and_the_compilers_it_runs_are_no_engines() -> None:
    process = family(with_host=True, between=("-m", "runtime.engine.fork.server"))
    try:
        assert Watch(process.pid).look().engine_processes == 0
    finally:
        end(process)


def test_an_engine_s_own_children_count_with_it() -> None:
    process = family(with_host=True, between=("serve",))
    try:
        assert Watch(process.pid).look().engine_processes == 2
    finally:
        end(process)


def test_what_outlives_up_is_left_over_and_can_be_ended(up: subprocess.Popen[bytes]) -> None:
    watch = Watch(up.pid)
    watch.look()
    assert len(watch.left_over()) == 3
    up.kill()
    up.wait()

    assert [name for name in watch.left_over() if name.startswith(f"{up.pid} ")] == []
    watch.kill_left_over()
    assert wait_until_empty(watch) == []


def test_nothing_is_left_over_when_all_end_in_order(up: subprocess.Popen[bytes]) -> None:
    watch = Watch(up.pid)
    watch.look()
    end(up)

    assert watch.left_over() == []
    assert watch.look().engine_processes == 0


def test_the_thread_looks_by_itself_and_ends(up: subprocess.Popen[bytes]) -> None:
    watch = Watch(up.pid)
    watch.begin()
    watch.end()

    assert watch.own_cpu_s() > 0


def wait_until_empty(watch: Watch) -> list[str]:
    """A killed process lives on for a moment until the kernel has taken it away."""
    for _ in range(1000):
        if not (left := watch.left_over()):
            return left
    return watch.left_over()
