"""An asyncio event loop in virtual time that runs several processes by turns, as a seed says.

Every callback belongs to the process whose context it carries. Within a process callbacks run in the order that asyncio
promises; between processes the order is drawn, as it is between real processes. Time passes only when no process has
anything to do. A process can be killed (whatever it still had to do never happens) or stalled for a while.
"""

import asyncio
import contextlib
import heapq
import warnings
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any

_TURNS_AT_ONE_INSTANT = 200_000
"""More callbacks than this without time passing: something spins."""


class Process:
    """One process of the simulated machine; `number` tells its incarnations apart."""

    def __init__(self, name: str, number: int = 0) -> None:
        self.name, self.number = name, number
        self.alive = True
        self.stalled_until_s = 0.0
        self.turns: deque[asyncio.Handle] = deque()
        self.on_death: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"{self.name}#{self.number}"

    def context(self) -> Context:
        """A context in which callbacks and tasks belong to this process."""
        context = copy_context()
        context.run(PROCESS.set, self)
        return context

    def kill(self) -> None:
        """As by SIGKILL: nothing of it runs any more, no `finally` either."""
        self.alive = False
        self.turns.clear()
        told, self.on_death = self.on_death, []
        for tell in told:
            tell()


KERNEL = Process("kernel")
PROCESS: ContextVar[Process] = ContextVar("PROCESS", default=KERNEL)


class Stuck(Exception):
    """Nothing is left to do, or time stands still, and the simulation is not over."""


class _Turns:
    """Stands in for the loop's queue of ready callbacks: one queue for each process."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._busy: dict[Process, None] = {}

    def append(self, handle: asyncio.Handle) -> None:
        context: Context = handle._context  # type: ignore[attr-defined]
        process = context.get(PROCESS, KERNEL)
        if process.alive:
            process.turns.append(handle)
            self._busy[process] = None

    def take(self, now_s: float) -> asyncio.Handle | None:
        """The next callback of a process that may run; None if there is none now."""
        able = [process for process in self._busy if process.turns and process.stalled_until_s <= now_s]
        if not able:
            return None
        process = able[0] if len(able) == 1 else able[int(self._random.random() * len(able))]
        handle = process.turns.popleft()
        if not process.turns:
            del self._busy[process]
        return handle

    def wakes_at_s(self) -> float | None:
        """When the first stalled process with something to do goes on."""
        for process in [process for process in self._busy if not process.turns]:
            del self._busy[process]
        return min((process.stalled_until_s for process in self._busy), default=None)

    def __len__(self) -> int:
        return len(self._busy)

    def clear(self) -> None:
        self._busy.clear()


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop. `faults`: what its callbacks raised and nobody caught."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.now_s = 0.0
        self.faults: list[str] = []
        self._turns = _Turns(random)
        self._ready: Any = self._turns
        self.connect: Callable[..., Coroutine[Any, Any, Any]] | None = None
        self._over = False
        self._tasks: list[asyncio.Task[Any]] = []
        self._still = 0
        self.set_task_factory(self._new_task)
        self.set_exception_handler(lambda _, told: self.faults.append(f"{told['message']}: {told.get('exception')!r}"))

    def time(self) -> float:
        return self.now_s

    def begin(self, process: Process, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` in `process`."""
        return self.create_task(work, context=process.context())

    def play(self, work: Coroutine[Any, Any, None]) -> None:
        """Run until `work` ends; then nothing runs any more. Raises Stuck."""
        try:
            self.run_until_complete(work)
        finally:
            with warnings.catch_warnings():
                # What is dropped may begin something in its `finally`, which nobody runs any more.
                warnings.filterwarnings("ignore", "coroutine .* was never awaited")
                self._finish()
            self.close()

    def _new_task(
        self, loop: asyncio.AbstractEventLoop, work: Any, context: Context | None = None
    ) -> asyncio.Task[Any]:
        # Kept: a task of a killed process must not be collected, for its `finally` would run then.
        task = asyncio.Task(work, loop=loop, context=context)
        self._tasks.append(task)
        return task

    def _run_once(self) -> None:
        self._timers_due()
        handle = self._turns.take(self.now_s)
        if handle is None:
            self._pass_time()
            return
        self._still += 1
        if self._still > _TURNS_AT_ONE_INSTANT:
            raise Stuck(f"time stands still at {self.now_s:.6f} s: {handle!r}")
        if not handle.cancelled():
            handle._run()

    def _timers_due(self) -> None:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        while timers and timers[0].when() <= self.now_s:
            timer = heapq.heappop(timers)
            timer._scheduled = False  # type: ignore[attr-defined]
            if not timer.cancelled():
                self._turns.append(timer)

    def _pass_time(self) -> None:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        while timers and timers[0].cancelled():
            heapq.heappop(timers)._scheduled = False  # type: ignore[attr-defined]
        moments = [timers[0].when()] if timers else []
        if (wakes_at_s := self._turns.wakes_at_s()) is not None:
            moments.append(wakes_at_s)
        if not moments:
            raise Stuck(f"nothing left to do at {self.now_s:.3f} s")
        self.now_s, self._still = max(self.now_s, min(moments)), 0

    def call_soon(  # type: ignore[override]  # typeshed's own has a type variable for each argument
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self._over:
            return asyncio.Handle(callback, args, self, context)
        return super().call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self._over:
            return asyncio.TimerHandle(when, callback, args, self, context)
        return super().call_at(when, callback, *args, context=context)

    async def create_connection(self, *args: Any, **_: Any) -> Any:
        """Whatever the run's network makes of it."""
        assert self.connect is not None
        return await self.connect(*args)

    def run_in_executor(  # type: ignore[override]  # as above
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """There are no threads here: it is done a moment later."""
        done: asyncio.Future[Any] = self.create_future()
        self.call_later(0.001, _finish, done, func, args)
        return done

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector here."""

    def _finish(self) -> None:
        """What still runs is dropped; a task that died of an error nobody looked at is a fault."""
        self._over = True
        for task in self._tasks:
            if task.done():
                if not task.cancelled() and task._log_traceback:
                    self.faults.append(f"{task.get_name()} died: {task.exception()!r}")
                continue
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(Exception):
                task.get_coro().close()
        self._tasks.clear()


def _finish(done: "asyncio.Future[Any]", func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if not done.done():
        done.set_result(func(*args))
