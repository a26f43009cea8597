"""One replica's life at a host: its start, its readiness, its end."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from datetime import datetime

from runtime.contract import EngineSpec, Failure, ReplicaView, StartRecord, Warmth
from runtime.engine.capture.steps import Tally
from runtime.engine.start import EngineStart, RunningEngine, StartFailed, StartRecycled
from runtime.host.plan import Held, Phase

LOOK_S = 60.0
"""How often a serving engine is asked what it has computed: what a crash may lose."""
LET_GO_S = 2.0
"""From being told to stop to the first step towards it.

The portal hears of it by way of the controller, some ten milliseconds later, more on a busy machine; a request that it
sends meanwhile must not meet an engine that refuses it.
"""


class Replica:
    """Drives one `EngineStart` to ready and watches the engine until it ends or is told to stop.

    `on_change` is called after each change of what `view` shows; `on_end` once, when the process tree is gone, with
    the failure that ended it (None: stopped on purpose). `let_go_s`: how long whoever sends requests may take to learn
    that this replica goes. `on_steps` is told what the engine computed, by tokens of a step; None: nobody asks.
    """

    def __init__(
        self,
        *,
        start: EngineStart,
        spec: EngineSpec,
        digest: str,
        ordinal: int,
        clock: Callable[[], datetime],
        on_change: Callable[[], None],
        on_end: Callable[["Replica", Failure | None], None],
        let_go_s: float = LET_GO_S,
        on_steps: Callable[[Mapping[int, float]], None] | None = None,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._start = start
        self._spec = spec
        self._clock = clock
        self._on_change = on_change
        self._on_end = on_end
        self._on_steps = on_steps
        self._busy = busy
        self._since = clock()
        self._stopping = asyncio.Event()
        self._drain_s = spec.drain_timeout_s
        self._let_go_s = let_go_s
        self.ready_at: datetime | None = None
        self.digest = digest
        self.ordinal = ordinal
        self.task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start the engine in the background."""
        self.task = asyncio.create_task(self._live(), name=f"replica {self._start.record.replica}")

    def stop(self, drain_s: float | None = None) -> None:
        """Drain and stop; a start under way is cancelled. Idempotent.

        `drain_s` None: this replica goes and the host stays, so it drains within the spec's time. Else the host itself
        ends, and whoever still sends requests learns it as soon as from the portal.
        """
        if self._stopping.is_set():
            return
        if drain_s is not None:
            self._drain_s, self._let_go_s = drain_s, 0.0
        self._stopping.set()
        self._since = self._clock()
        self._on_change()

    @property
    def record(self) -> StartRecord:
        """The start's record as it stands."""
        return self._start.record

    @property
    def model_stamp(self) -> str | None:
        """How the model's files stood when the start looked at them."""
        return self._start.model_stamp

    @property
    def held(self) -> Held:
        """This replica as `plan` sees it."""
        if self._stopping.is_set():
            return Held(self.ordinal, self.digest, Phase.DRAINING)
        return Held(self.ordinal, self.digest, Phase.READY if self.ready_at else Phase.STARTING)

    def view(self, *, current_digest: str) -> ReplicaView:
        """This replica as the contract shows it."""
        return ReplicaView(
            id=self.record.replica,
            service=self._spec.service,
            warmth=Warmth.WARM if self.ready_at else Warmth.WARMING,
            since=self._since,
            start_id=self.record.id,
            url=self._start.url,
            stage=None if self.ready_at else self._start.stage,
            ready_at=self.ready_at,
            draining=self._stopping.is_set(),
            stale=self.digest != current_digest,
            pid=self._start.pid,
        )

    async def _live(self) -> None:
        failure: Failure | None = None
        try:
            engine = await self._started()
            if engine is not None:
                failure = await self._watched(engine)
            if failure is not None:
                await self._start.note_end(failure)
        except StartRecycled:
            pass  # the record says so, and whoever keeps the service at its order begins the next one
        except StartFailed as failed:
            failure = failed.failure
        finally:
            await self._start.close()
            self._on_end(self, failure)

    async def _started(self) -> RunningEngine | None:
        """The running engine, admitted; None if it was told to stop before. Raises StartFailed, StartRecycled."""
        run = asyncio.create_task(self._start.run())
        stop = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({run, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not run.done():
                run.cancel()
                with contextlib.suppress(asyncio.CancelledError, StartFailed, StartRecycled):
                    await run
        if run.cancelled() or (self._stopping.is_set() and run.exception() is not None):
            return None
        engine = run.result()
        self._since = self.ready_at = self._clock()
        self._start.admit(self.ready_at)
        self._on_change()
        return engine

    async def _watched(self, engine: RunningEngine) -> Failure | None:
        """Wait until the engine dies (its failure) or is told to stop and has stopped (None)."""
        died = asyncio.create_task(engine.wait())
        stop = asyncio.create_task(self._stopping.wait())
        warm = asyncio.create_task(self._warm(engine))
        tally = Tally()
        look = asyncio.create_task(self._look_on(engine, tally))
        try:
            await asyncio.wait({died, stop}, return_when=asyncio.FIRST_COMPLETED)
            warm.cancel()
            look.cancel()
            if died.done() and not self._stopping.is_set():
                return died.result()
            letting_go = asyncio.wait({died}, timeout=self._let_go_s)
            await asyncio.gather(engine.leave(), self._look(engine, tally), letting_go)
            return None
        finally:
            stop.cancel()
            warm.cancel()
            look.cancel()
            # Also after a death: what is left of the process group must go, or an ordinal would be free too early.
            await engine.stop(self._drain_s if self._stopping.is_set() else 0.0)
            died.cancel()

    async def _look_on(self, engine: RunningEngine, tally: Tally) -> None:
        while True:
            await self._look(engine, tally)
            await asyncio.sleep(LOOK_S)

    async def _look(self, engine: RunningEngine, tally: Tally) -> None:
        """Tell what the engine has computed since the last look."""
        if self._on_steps is not None and (new := tally.new(await engine.steps())):
            self._on_steps(new)

    async def _warm(self, engine: RunningEngine) -> None:
        if await engine.warm(self._spec, self._busy):
            self._start.note_warmed(self._clock())
