"""The stage as this process sees it: begun, asked with a time limit, begun again after it hung, always ended."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from types import TracebackType
from typing import IO, Any

from runtime.engine.leash import PARENT_ENV
from runtime.weights.bench.model import Load, Loaded

BEGIN_TIMEOUT_S = 300.0
"""For importing vLLM: 10 s on two free cores, minutes from a cold network disk."""


class BenchError(Exception):
    """The bench cannot be run, or came to nothing; `str()` says why."""


class Stage:
    """A context manager: on leaving, however, the processes are gone. `versions` once it has begun."""

    def __init__(self, env: Mapping[str, str], log: IO[bytes]) -> None:
        self._env, self._log = env, log
        self._process: subprocess.Popen[str] | None = None
        self.versions = ""

    def __enter__(self) -> "Stage":
        try:
            self._begin()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def load(self, load: Load, timeout_s: float) -> Loaded:
        """Do one load; one that takes longer than `timeout_s` is ended and told as an error."""
        process = self._process or self._begin()
        if process.stdin is None:
            raise BenchError("the bench's process has no stdin")
        try:
            process.stdin.write(json.dumps(asdict(load)) + "\n")
            answer = self._answer(process, timeout_s)
        except (BrokenPipeError, EOFError):
            self._end()
            return Loaded(error="the bench's process ended")
        if answer is None:
            self._end()
            return Loaded(error=f"took longer than {timeout_s:g} s")
        return Loaded(**answer)

    def _begin(self) -> "subprocess.Popen[str]":
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "runtime.weights.bench.stage"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            bufsize=1,
            env={**self._env, PARENT_ENV: str(os.getpid())},
            start_new_session=True,  # Ctrl-C reaches this process only, which ends that one
        )
        try:
            told = self._answer(self._process, BEGIN_TIMEOUT_S)
        except EOFError:
            raise BenchError("vLLM cannot be imported here: install it by the extra [cpu] or [gpu]") from None
        if told is None:
            raise BenchError(f"vLLM was not imported within {BEGIN_TIMEOUT_S:g} s")
        self.versions = told["versions"]
        return self._process

    @staticmethod
    def _answer(process: "subprocess.Popen[str]", timeout_s: float) -> dict[str, Any] | None:
        """The next line; None when it does not come in time. Raises EOFError when it never will."""
        if process.stdout is None or not select.select([process.stdout], [], [], timeout_s)[0]:
            return None
        line = process.stdout.readline()
        if not line:
            raise EOFError
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(BrokenPipeError), process:  # closes the pipes and reaps
            pass
