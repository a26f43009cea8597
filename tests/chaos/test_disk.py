"""A state directory whose disk is full, at the start or while it serves, or that cannot be written at all."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.kit import ChaosUp, serves_again, told
from tests.chaos.rows import Row
from tests.serving import running, wait_for

SIZE_KIB = 4096


@contextmanager
def disk_of_its_own(directory: Path) -> Iterator[Path]:
    """The directory, a file system of its own of 4 MiB in memory; skips where none can be had."""
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_KIB}k,mode=0700", "tmpfs", str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"a tmpfs needs the right to mount (root, CAP_SYS_ADMIN): {made.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


@pytest.fixture
def small(up: ChaosUp) -> Iterator[Path]:
    """The state directory on a small disk."""
    up.state.mkdir(mode=0o700)
    with disk_of_its_own(up.state):
        yield up.state


def fill(directory: Path) -> Path:
    """Leave no byte free; remove the file and there is room again."""
    ballast = directory / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (2**16, 2**10, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast


def test_a_disk_that_fills_while_it_serves(up: ChaosUp, small: Path, row: Row) -> None:
    """Starts and answers go on; a hold is refused, for it could not be kept; with room again it is as before."""
    up.serve("chat", cost="1s")
    with running(up):
        serves_again(up)
        up.wait_warmth("chat", "cold")
        ballast = fill(small)
        assert told(up, "chat", stream=False) == "answered"
        assert told(up, "chat", stream=True) == "answered"
        refused = up.api("POST", "/v1/holds", {"service": "test/chat", "for_s": 600})
        assert refused.status_code == 503, refused.text
        assert "full" in refused.json()["error"]["message"]
        assert up.api("GET", "/v1/holds").json() == []
        wait_for(lambda: "full" in up.said(), within_s=20, saying="it is said")
        ballast.unlink()
        assert up.api("POST", "/v1/holds", {"service": "test/chat", "for_s": 600}).status_code == 201
        serves_again(up)
        up.never_two()
    assert "Traceback" not in up.said()
    assert up.said().count("full") <= 3, f"once is enough:\n{up.said()}"
    row.tell(done="the disk filled while it served", outcome="served on; hold refused (503); as before with room")


@pytest.mark.prove
def test_parts_killed_on_a_full_disk_come_back(up: ChaosUp, small: Path, row: Row) -> None:
    """Nothing can be written, no log either: portal and host are replaced all the same; the next up names the disk."""
    up.serve("chat")
    with running(up):
        serves_again(up)
        ballast = fill(small)
        for part in ("portal", "host"):
            up.kill(part)
            serves_again(up, within_s=30)
        up.kill("controller")
        failed = subprocess.run(up.argv(), capture_output=True, text=True, timeout=60, check=False)
        assert failed.returncode == 1
        assert failed.stderr.count("error:") == 1
        assert "full" in failed.stderr or "No space" in failed.stderr
        assert "Traceback" not in failed.stderr
        ballast.unlink()
        up.begin()
        serves_again(up)
        up.never_two()
    row.tell(done="portal, host, controller killed on a full disk", outcome="replaced; the next up names the full disk")


@pytest.mark.prove
@pytest.mark.parametrize("name", ["logs", "engines"])
def test_a_full_disk_for_logs_alone(up: ChaosUp, row: Row, name: str) -> None:
    """Nothing is written of what happens; what happens goes on, from the first start."""
    up.serve("chat")
    directory = up.state / name
    up.state.mkdir(mode=0o700)
    for each in (directory, up.state / "engines" / "test" / "chat" / "0"):
        each.mkdir(parents=True, exist_ok=True)
    with disk_of_its_own(directory):
        (directory / "test" / "chat" / "0" / "run").mkdir(parents=True)
        fill(directory)
        with running(up):
            serves_again(up)
            for part in ("portal", "host"):
                up.kill(part)
                serves_again(up, within_s=30)
        assert "Traceback" not in up.said()
    row.tell(done=f"{name}/ on a full disk from the start", outcome="serves; portal and host are replaced when killed")


def test_an_up_on_a_full_disk_names_it(up: ChaosUp, small: Path, row: Row) -> None:
    up.serve("chat")
    for kept in (0, 8 * 1024):
        ballast = fill(small)
        with ballast.open("r+b") as file:
            file.truncate(ballast.stat().st_size - kept)
        failed = subprocess.run(up.argv(), capture_output=True, text=True, timeout=60, check=False)
        assert failed.returncode == 1, failed.stderr
        assert failed.stderr.count("error:") == 1, failed.stderr
        assert "full" in failed.stderr or "No space" in failed.stderr
        assert str(small) in failed.stderr
        assert "Traceback" not in failed.stderr
        assert up.processes() == []
        for path in small.iterdir():
            if path.is_file():
                path.unlink()
    row.tell(done="up on a full disk, with 0 and 8 KiB free", outcome="one line that names it, status 1")


@pytest.mark.parametrize("earlier", [False, pytest.param(True, marks=pytest.mark.prove)], ids=["empty", "used"])
def test_a_directory_that_cannot_be_written_is_named(up: ChaosUp, small: Path, row: Row, earlier: bool) -> None:
    """Empty, and as an earlier `up` left it."""
    up.serve("chat")
    if earlier:
        with running(up):
            serves_again(up)
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    try:
        failed = subprocess.run(up.argv(), capture_output=True, text=True, timeout=60, check=False)
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(small)], check=True)
    assert failed.returncode == 1
    assert failed.stderr.count("error:") == 1
    assert str(small) in failed.stderr
    assert "Read-only file system" in failed.stderr
    assert up.processes() == []
    row.tell(done="up on a read-only state directory", outcome="one line that names it, status 1")
