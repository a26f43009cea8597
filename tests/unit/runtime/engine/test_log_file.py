"""An engine's log never grows without end."""

from pathlib import Path

import pytest

from runtime.engine.log_file import LogFile


def test_a_full_log_is_set_aside_and_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    log = LogFile(path, max_bytes=100)
    for number in range(50):
        log.write(b"%09d\n" % number)
    log.close()
    kept = path.with_name("engine.log.1").read_bytes() + path.read_bytes()
    assert kept.endswith(b"%09d\n" % 49), "the newest lines stay"
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 200
    assert kept.splitlines() == [b"%09d" % number for number in range(50 - len(kept) // 10, 50)], "none torn or lost"


def test_an_earlier_log_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    path.write_bytes(b"before\n")
    log = LogFile(path, max_bytes=100)
    log.write(b"after\n")
    log.close()
    assert path.read_bytes() == b"before\nafter\n"


def test_what_a_full_disk_does_not_take_is_lost_to_the_log_alone() -> None:
    log = LogFile(Path("/dev/full"))
    log.write(b"a line\n")
    log.close()
    log.close()
    assert log.closed


@pytest.mark.parametrize("size", [99, 100, 1000])
def test_one_write_is_never_torn(tmp_path: Path, size: int) -> None:
    path = tmp_path / "engine.log"
    log = LogFile(path, max_bytes=100)
    for _ in range(3):
        log.write(b"x" * size)
    log.close()
    assert path.stat().st_size == size
