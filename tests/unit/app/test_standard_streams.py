"""Output that cannot be written is told in one line or not at all; Ctrl-C interrupts where something is to be done."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from activator_ext.app import streams

UNWRITTEN = """
import sys
from activator_ext.app import streams
with streams.told_if_unwritten():
    print("x" * {size})
"""


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_full_disk_is_a_line_and_status_1(size: int) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", UNWRITTEN.format(size=size)], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"error: the output cannot be written: No space left on device\n")


def test_a_reader_that_left_is_silence_and_status_1() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = subprocess.run(
            [sys.executable, "-c", UNWRITTEN.format(size=10)], stdout=gone, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOENT, "none"), OSError(errno.ENOSPC, "full", "/some/file"), ValueError("x")]
)
def test_what_is_no_matter_of_the_output_is_left_alone(error: Exception) -> None:
    with pytest.raises(type(error)), streams.told_if_unwritten():
        raise error


def test_closed_streams_get_dev_null() -> None:
    code = "from activator_ext.app import streams; streams.open_closed(); print(open('/dev/zero').fileno()); "
    code += "import os, sys; sys.stderr.write('lost'); assert os.readlink('/proc/self/fd/2') == '/dev/null'"
    done = subprocess.run(
        ["sh", "-c", '"$@" <&- 2>&-', "sh", sys.executable, "-c", code], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"3\n")


def test_ctrl_c_is_an_interrupt_for_as_long_as_it_is_asked_for() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt), streams.interruptible():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with streams.interruptible():
            signal.raise_signal(signal.SIGINT)  # ignored by whoever began this: it stays so
    finally:
        signal.signal(signal.SIGINT, before)
