"""One line of progress with elapsed seconds, however much the program behind it says."""

import selectors
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

# Without a terminal a line every 15 s shows life and does not flood a log.
QUIET_INTERVAL_S = 15.0
# pip's lines that say what it is at; the rest (warnings, what is satisfied) is for the log.
TELLING = ("Collecting ", "Downloading ", "Building ", "Installing ", "Uninstalling ", "Successfully installed ")


class Progress:
    """Shows the step under way. On a terminal one line is rewritten; else a line is printed now and then."""

    def __init__(self, *, interactive: bool, out: TextIO = sys.stdout) -> None:
        self._interactive = interactive
        self._out = out
        self._begun = time.monotonic()
        self._shown_at = self._begun
        self._step = ""

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begun

    def step(self, name: str) -> None:
        """A new step begins."""
        self._step = name
        self._clear()
        self._out.write(f"setup: [{self.elapsed_s:4.0f} s] {name}\n")
        self._out.flush()

    def tick(self, detail: str) -> None:
        """The step goes on; `detail` is the last thing that was said."""
        text = f"setup: [{self.elapsed_s:4.0f} s] … {detail}"
        if self._interactive:
            width = shutil.get_terminal_size().columns - 1
            self._out.write(f"\r\x1b[K{text[:width]}")
            self._out.flush()
        elif time.monotonic() - self._shown_at >= QUIET_INTERVAL_S:
            self._shown_at = time.monotonic()
            self._out.write(f"{text[:120]}\n")
            self._out.flush()

    def end(self) -> None:
        """Nothing more to show."""
        self._clear()

    def _clear(self) -> None:
        if self._interactive:
            self._out.write("\r\x1b[K")
            self._out.flush()


def run_logged(command: list[str], *, cwd: Path, log: Path, progress: Progress) -> int:
    """Run a command, append all it says to `log` and show its last line; return its exit status.

    If this process is interrupted, the command is ended first.
    """
    with (
        log.open("a", encoding="utf-8") as record,
        subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child,
        selectors.DefaultSelector() as selector,
    ):
        record.write(f"$ {' '.join(command)}\n")
        assert child.stdout is not None  # noqa: S101 — asked for above
        selector.register(child.stdout, selectors.EVENT_READ)
        detail = ""
        try:
            while True:
                if selector.select(timeout=0.5):
                    chunk = child.stdout.read1(65536)  # type: ignore[attr-defined]  # a BufferedReader, typed as IO
                    if not chunk:
                        break
                    text = chunk.decode("utf-8", errors="replace")
                    record.write(text)
                    record.flush()
                    detail = next((line for line in reversed(text.splitlines()) if line.startswith(TELLING)), detail)
                progress.tick(detail)
        except BaseException:
            child.terminate()
            raise
        return child.wait()
