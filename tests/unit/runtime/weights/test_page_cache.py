import os
import threading
from pathlib import Path

import pytest

from runtime.weights.digest import file_digest
from runtime.weights.page_cache import drop, resident_bytes
from runtime.weights.read_ahead import SPAN_BYTES, ReadAhead, budget_bytes

SIZE = SPAN_BYTES + 12345


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files that are not in the page cache."""
    made = [tmp_path / name for name in ("a", "b")]
    for path in made:
        path.write_bytes(os.urandom(SIZE))
        drop(path)
    if any(resident_bytes(path) for path in made):
        pytest.skip("this file system keeps its pages (tmpfs): set TMPDIR to a directory on a disk")
    return made


def test_hashing_brings_the_file_into_the_page_cache(files: list[Path]) -> None:
    file_digest(files[0], threading.Event())
    assert resident_bytes(files[0]) == SIZE
    assert resident_bytes(files[1]) == 0


def test_read_ahead_brings_all_in_and_passes_over_what_is_there(files: list[Path]) -> None:
    first = ReadAhead(files, 2 * SIZE)
    first.start()
    assert first.join(60)
    assert [resident_bytes(path) for path in files] == [SIZE, SIZE]
    # The kernel reads ahead, too: the end of a file may be there before we ask for it.
    assert first.read_bytes + first.cached_bytes == 2 * SIZE
    assert first.read_bytes >= 2 * SPAN_BYTES
    again = ReadAhead(files, 2 * SIZE)
    again.start()
    assert again.join(60)
    assert (again.read_bytes, again.cached_bytes) == (0, 2 * SIZE)


def test_read_ahead_keeps_to_its_budget(files: list[Path]) -> None:
    ahead = ReadAhead(files, SPAN_BYTES, threads=1)
    ahead.start()
    assert ahead.join(60)
    assert ahead.read_bytes == SPAN_BYTES


@pytest.mark.parametrize("budget", [0, -1])
def test_without_budget_nothing_is_read(files: list[Path], budget: int) -> None:
    ahead = ReadAhead(files, budget)
    ahead.start()
    assert ahead.join(60)
    assert ahead.read_bytes == 0


def test_stopped_it_reads_no_further(files: list[Path]) -> None:
    ahead = ReadAhead(files, 2 * SIZE)
    ahead.stop()
    ahead.start()
    assert ahead.join(60)
    assert ahead.read_bytes == 0


def test_a_file_that_is_gone_is_left_to_the_loader(files: list[Path]) -> None:
    files[0].unlink()
    ahead = ReadAhead(files, 2 * SIZE, threads=1)
    ahead.start()
    assert ahead.join(60)
    assert resident_bytes(files[1]) == SIZE


@pytest.mark.parametrize(("weights", "free", "budget"), [(80, 100, 80), (81, 100, 0), (1, None, 0), (0, 0, 0)])
def test_all_or_nothing_is_read_ahead(weights: int, free: int | None, budget: int) -> None:
    assert budget_bytes(weights, free) == budget
