"""One start of one engine, T0 to T9: prove the model, begin the process, follow its stages, ask it, admit it.

The host owns retries and the decision to admit; this owns the process from its first to its last instant.
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

from runtime.contract import (
    STUCK_AFTER_S,
    EngineSpec,
    Failure,
    FailureCause,
    Mark,
    Stage,
    StageEvent,
    StartRecord,
)
from runtime.engine.argv import platform_of
from runtime.engine.cache_kind import remember_compiled
from runtime.engine.compiled import CompiledCode
from runtime.engine.dirs import EngineDirs
from runtime.engine.engines import Engines
from runtime.engine.launch import Launcher
from runtime.engine.lines import excerpt
from runtime.engine.platforms import Span
from runtime.engine.preparation import Preparation
from runtime.engine.process import EngineProcess
from runtime.engine.recorder import Recorder
from runtime.engine.running import RunningEngine
from runtime.engine.snapshot.attempt import Attempt
from runtime.engine.spans import SpanReceiver
from runtime.engine.watch import stage_name
from runtime.engine.weight_sources import WeightSources
from runtime.ready.fault import Fault
from runtime.ready.gate_control import GateControl
from runtime.ready.golden import ask_golden

__all__ = ["EngineDirs", "EngineStart", "RunningEngine", "StartFailed", "utc_now"]

LATE_SPANS_S = 5.0
"""How long after T9 spans may still complete the record; the engine exports every 0.5 s."""


def utc_now() -> datetime:
    """The present instant."""
    return datetime.now(UTC)


class StartFailed(Exception):
    """The start came to nothing; its process group is gone. `str()` is the failure's message."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class StartRecycled(Exception):
    """The start was proven and ended on purpose, before it was admitted: the next one is better. `str()` says why."""


class EngineStart:
    """One start. `run` once, then `admit` once; `record`, `stage`, `url` and `pid` may be read at any time.

    `awaited`: whether a request waits for it now; None: nobody can tell. `recycles`: whether it may end as
    StartRecycled, because who runs it begins another one then.
    """

    def __init__(
        self,
        *,
        spec: EngineSpec,
        start_id: str,
        replica: str,
        dirs: EngineDirs,
        asked_at: datetime,
        why: str,
        spans: SpanReceiver | None,
        on_change: Callable[["EngineStart"], None],
        on_stage: Callable[[StageEvent], None],
        stuck_after_s: float = STUCK_AFTER_S,
        clock: Callable[[], datetime] = utc_now,
        launcher: Launcher,
        no_fork: str | None = None,
        awaited: Callable[[], bool | None] = lambda: None,
        recycles: bool = False,
        shapes: str = "",
    ) -> None:
        self._spec, self._dirs, self._clock, self._recycles = spec, dirs, clock, recycles
        record = StartRecord(
            id=start_id,
            service=spec.service,
            replica=replica,
            kind=launcher.kind(spec, dirs, no_fork),
            why=why,
            spawned_because=no_fork,
            shapes=shapes,
        )
        self._recorder = Recorder(
            record,
            platform_of(spec),
            asked_at=asked_at,
            clock=clock,
            on_change=lambda: on_change(self),
            on_stage=on_stage,
        )
        self._compiled = CompiledCode(launcher, self._recorder, awaited)
        sources = WeightSources(spec, self._recorder, launcher.measured)
        self._preparation = Preparation(spec, dirs, self._recorder, self._compiled, sources, no_fork)
        self._engines = Engines(
            spec,
            dirs,
            launcher,
            self._recorder,
            self._compiled,
            self._preparation,
            spans=spans,
            stuck_after_s=stuck_after_s,
            no_fork=no_fork,
        )
        self._attempt = Attempt(spec, dirs, self._recorder, self._engines.watch, launcher)

    @property
    def record(self) -> StartRecord:
        """The start as known now."""
        return self._recorder.record

    @property
    def stage(self) -> Stage | None:
        """The stage under way; None between stages and once the start is over."""
        return self._recorder.stage

    @property
    def model_stamp(self) -> str | None:
        """How the model's files stood when the start looked at them first; None before that, and for a URL."""
        return self._preparation.model_stamp

    @property
    def pid(self) -> int | None:
        """The engine leader's pid, None before T4."""
        return self._engines.process.pid if self._engines.process else None

    @property
    def url(self) -> str | None:
        """Where the engine answers, None before T4."""
        return self._engines.url

    @property
    def trace_id(self) -> str:
        """The trace of the engine's spans."""
        return self._engines.trace_id

    @property
    def spans(self) -> tuple[Span, ...]:
        """The engine's own spans of this start so far."""
        return self._recorder.spans

    async def run(self) -> RunningEngine:
        """T1 to T8. Raises StartFailed, StartRecycled; cancelled, it kills and reaps the process group first."""
        try:
            async with asyncio.timeout(self._spec.start_timeout_s) as limit:
                return await self._run()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise await self._failed(self._timed_out()) from error
        except Fault as fault:
            raise await self._failed(fault) from fault
        except asyncio.CancelledError:
            await self._clear()
            self._recorder.change(outcome="cancelled")
            raise
        except StartRecycled:
            await self._clear()
            self._recorder.change(outcome="recycled")
            raise
        except Exception as error:  # whatever it was, the start has failed and its processes must go
            broken = Fault(FailureCause.SPAWN_FAILED, f"the start broke off: {type(error).__name__}: {error}")
            raise await self._failed(broken) from error

    def admit(self, at: datetime) -> StartRecord:
        """T9: the replica is given requests from `at` on. Spans may complete the record for some seconds more."""
        self._recorder.reach(Mark.T9, at)
        self._remember()
        self._recorder.change(outcome="ready")
        self._compiled.publish()
        asyncio.get_running_loop().call_later(LATE_SPANS_S, self._engines.unsubscribe)
        return self._recorder.record

    def note_warmed(self, at: datetime) -> StartRecord:
        """Every shape has been computed once: the second level of readiness."""
        self._recorder.change(warmed_at=at)
        return self._recorder.record

    async def note_end(self, failure: Failure) -> StartRecord:
        """The engine that had become ready has ended by itself."""
        await self._compiled.blame(failure)
        self._recorder.change(ended=failure)
        return self._recorder.record

    async def _run(self) -> RunningEngine:
        taken = self._clock()
        self._recorder.reach(Mark.T1, taken)
        self._recorder.reach(Mark.T2, taken)  # the image is here: we run in it
        self._recorder.end(Stage.ORDER, taken)
        promising = await self._attempt.promising()
        await self._preparation.run(taken, compiled=not promising)
        if promising:
            if (back := await self._attempt.run()) is not None:
                self._preparation.stop_reading()
                self._engines.process, self._engines.url = back.process, back.gate.url
                return await self._opened(back.process, back.gate)
            await self._compiled.find(self._spec, self._dirs, self._clock(), self._preparation.no_fork)
        process, gate = await self._engines.serving()
        watch = self._engines.watch
        proven = self._clock()
        self._recorder.end(Stage.READY_PROBE, proven)
        self._recorder.begin(Stage.GOLDEN_PROMPT, proven)
        spec, key = self._spec, self._recorder.record.golden_key
        golden = ask_golden(gate.url, spec.served_names[0], spec.golden, spec.start_timeout_s, key, gate.headers)
        tokens = await watch.or_end(process, golden)
        answered = self._clock()
        self._recorder.reach(Mark.T8, answered)
        self._recorder.end(Stage.GOLDEN_PROMPT, answered)
        self._recorder.change(golden_tokens=tokens)
        await self._compiled.proven()
        if why := await watch.or_end(process, self._compiled.recycled(before=not self._recycles)):
            self._remember()
            raise StartRecycled(why)
        return await self._opened(process, gate)

    async def _opened(self, process: EngineProcess, gate: GateControl) -> RunningEngine:
        watch = self._engines.watch
        await watch.or_end(process, gate.open())
        return RunningEngine(
            process=process,
            gate=gate,
            log=self._dirs.log,
            oom=watch.oom,
            clock=self._clock,
            on_end=self._engines.unsubscribe,
        )

    def _remember(self) -> None:
        with contextlib.suppress(OSError):  # without its mark the next start merely counts as cold
            remember_compiled(self._dirs, self._spec)

    def _timed_out(self) -> Fault:
        stage = stage_name(self.stage)
        return Fault(
            FailureCause.START_TIMEOUT,
            f"the start took longer than {self._spec.start_timeout_s:.0f} s, last in {stage}: "
            f"raise the start timeout or see {self._dirs.log}",
            {"stage": stage, "timeout_s": self._spec.start_timeout_s},
        )

    async def published(self) -> StartRecord:
        """The record, once stores were offered what was compiled and it says what came of that. After `admit`."""
        await self._compiled.published()
        return self._recorder.record

    async def close(self) -> None:
        """The replica has ended: nothing of the start is at work any more."""
        await self._compiled.close()
        self._attempt.close()

    async def _failed(self, fault: Fault) -> StartFailed:
        failure = fault.at(self._clock())
        await self._compiled.blame(failure)
        process = self._engines.process
        if process is not None and not failure.tail:
            failure = failure.model_copy(update={"tail": excerpt(process.tail)})
        await self._clear()
        self._recorder.change(outcome="failed", failure=failure)
        return StartFailed(failure)

    async def _clear(self) -> None:
        self._preparation.stop_reading()
        await self._engines.clear()
        await self._compiled.abandon(begun=self._engines.process is not None)
