"""Watches the process of a start while something is waited for: its end, or that it is stuck."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from runtime.contract import FailureCause, Stage
from runtime.engine.ending import End, failed_start
from runtime.engine.lines import only_waits
from runtime.engine.oom import OomWindow, counter_of
from runtime.engine.process import EngineProcess
from runtime.engine.progress import Progress
from runtime.engine.vitals import vitals_of
from runtime.ready.fault import Fault

DYING_S = 3.0
"""A request that fails is often the first sign of an engine that ends; its exit tells more. vLLM needs 1–2 s for it."""

SAMPLE_S = 1.0
"""How often a start is looked at for signs of life."""

T = TypeVar("T")


class StartWatch:
    """One start's process from T4 on. `stage` says which one is under way; `stuck_after_s` is the order's."""

    def __init__(self, *, log: Path, stuck_after_s: float, stage: Callable[[], Stage | None]) -> None:
        self._log, self._stage = log, stage
        self._loop = asyncio.get_running_loop()
        self._progress = Progress(self._loop.time(), stuck_after_s)
        self.oom = OomWindow(None)

    def begin(self, process: EngineProcess) -> None:
        """The process has begun: its time counts from now."""
        self.oom = OomWindow(counter_of(process.pid))
        self._progress.sign(self._loop.time())

    def line(self, text: str) -> None:
        """The engine printed a line: a sign of life, unless it only says that it waits."""
        if not only_waits(text):
            self._progress.sign(self._loop.time())

    async def or_end(self, process: EngineProcess, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, or the Fault of an engine that ended or got stuck meanwhile."""
        task, end = asyncio.ensure_future(work), asyncio.ensure_future(process.wait())
        stuck = asyncio.ensure_future(self._until_stuck(process))
        try:
            await asyncio.wait((task, end, stuck), return_when=asyncio.FIRST_COMPLETED)
            if task.done() and _no_answer(task.exception()):
                await asyncio.wait((end,), timeout=DYING_S)
            if end.done():
                await process.clear()
                self.oom.take(self._loop.time())
                raise failed_start(End(end.result(), process.tail, self._log, self.oom.kills), self._stage())
            return task.result() if task.done() else stuck.result()
        finally:
            for pending in (task, end, stuck):
                pending.cancel()
            await asyncio.gather(task, end, stuck, return_exceptions=True)

    async def _until_stuck(self, process: EngineProcess) -> NoReturn:
        """Raises Fault (STUCK) once the start shows no sign of life for too long."""
        while True:
            now_s = self._loop.time()
            self.oom.take(now_s)
            self._progress.sample(now_s, vitals_of(process.pid))
            if self._progress.stuck(now_s):
                raise self._fault(self._progress.quiet_s(now_s))
            await asyncio.sleep(SAMPLE_S)

    def _fault(self, quiet_s: float) -> Fault:
        stage = stage_name(self._stage())
        stopped = self._progress.stopped
        why = f"its process {stopped} is stopped (SIGSTOP)" if stopped else "no log line, no CPU and no disk used"
        return Fault(
            FailureCause.STUCK,
            f"the start is stuck in {stage}: no sign of life for {quiet_s:.0f} s ({why}); it was ended"
            f" (log: {self._log})",
            {"stage": stage, "quiet_s": round(quiet_s, 1), "stuck_after_s": self._progress.patience_s},
        )


def stage_name(stage: Stage | None) -> str:
    """The stage as a message names it."""
    return stage.value if stage is not None else "between stages"


def _no_answer(error: BaseException | None) -> bool:
    return isinstance(error, Fault) and error.cause is FailureCause.GOLDEN_FAILED
