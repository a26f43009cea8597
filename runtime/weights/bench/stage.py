"""The bench's second process: it imports vLLM once, and forks for each load, so that every load begins fresh.

    python -m runtime.weights.bench.stage   `Load` as a JSON line on stdin → `Loaded` as a JSON line on stdout

The first line on stdout tells the versions. Whatever vLLM prints goes to stderr. On a leash: it ends with its parent.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TextIO

from runtime.engine.leash import leash, leash_to_starter
from runtime.weights.bench.load import run, together
from runtime.weights.bench.model import Load, Loaded
from runtime.weights.versions import versions


def main() -> None:
    """Serve loads until stdin ends."""
    leash_to_starter()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at the terminal is the parent's to handle
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(2, 1)
        # Only importing: nothing here may start a thread or touch a device before the forks.
        import vllm.model_executor.model_loader  # noqa: F401, PLC0415  (the point of this process)

        _say(answers, {"versions": versions()})
        for line in sys.stdin:
            _say(answers, asdict(_forked(Load(**json.loads(line)))))


def _say(answers: TextIO, value: object) -> None:
    answers.write(json.dumps(value) + "\n")


def _forked(load: Load) -> Loaded:
    """One process for each rank, all let go at the same instant."""
    wait, go = os.pipe()
    begun = [_fork(load, rank, wait, go) for rank in range(load.ranks)]
    os.close(wait)
    os.close(go)
    return together(_results(begun))


def _fork(load: Load, rank: int, wait: int, go: int) -> tuple[int, int]:
    """(pid, the pipe on which it answers)."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    code = 1
    try:
        leash()
        os.close(go)
        os.read(wait, 1)  # ends when the parent, and every rank, has closed the other end
        with os.fdopen(write, "w") as answer:
            answer.write(json.dumps(asdict(run(load, rank))))
        code = 0
    finally:
        os._exit(code)


def _results(begun: list[tuple[int, int]]) -> Iterator[Loaded]:
    for pid, read in begun:
        with os.fdopen(read) as answer:
            text = answer.read()
        _, status = os.waitpid(pid, 0)
        if text:
            yield Loaded(**json.loads(text))
        elif os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            yield Loaded(error=f"ended by {name}" + (": out of memory?" if name == "SIGKILL" else ""))
        else:
            yield Loaded(error=f"ended with code {os.waitstatus_to_exitcode(status)} and no answer")


if __name__ == "__main__":
    main()
