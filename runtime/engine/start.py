"""One start of one engine, T0 to T9: prove the model, begin the process, follow its stages, ask it, admit it.

The host owns retries and the decision to admit; this owns the process from its first to its last instant.
"""

import asyncio
import contextlib
import secrets
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
    StartKind,
    StartRecord,
)
from runtime.engine.argv import Tracing, platform_of
from runtime.engine.cache_kind import remember_compiled
from runtime.engine.compiled import CompiledCode
from runtime.engine.dirs import EngineDirs
from runtime.engine.launch import Launcher
from runtime.engine.lines import excerpt
from runtime.engine.platforms import Span
from runtime.engine.preparation import Preparation
from runtime.engine.process import EngineProcess
from runtime.engine.recorder import Recorder
from runtime.engine.running import RunningEngine
from runtime.engine.spans import SpanReceiver
from runtime.engine.watch import StartWatch, stage_name
from runtime.ready.fault import Fault
from runtime.ready.gate_control import GateControl
from runtime.ready.gate_credential import HeldCredential
from runtime.ready.golden import ask_golden
from runtime.ready.probe import wait_until_serving

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


class EngineStart:
    """One start. `run` once, then `admit` once; `record`, `stage`, `url` and `pid` may be read at any time."""

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
        shapes: str = "",
    ) -> None:
        self._spec, self._dirs, self._clock = spec, dirs, clock
        self._launcher, self._no_fork = launcher, no_fork
        self._watch = StartWatch(log=dirs.log, stuck_after_s=stuck_after_s, stage=lambda: self.stage)
        self._receiver, self.trace_id = spans, secrets.token_hex(16)
        self._server_up = asyncio.Event()
        self._process: EngineProcess | None = None
        self._credential: HeldCredential | None = None
        self.url: str | None = None
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
        self._compiled = CompiledCode(launcher, self._recorder)
        self._preparation = Preparation(spec, dirs, self._recorder, self._compiled, no_fork)

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
        return self._process.pid if self._process else None

    @property
    def spans(self) -> tuple[Span, ...]:
        """The engine's own spans of this start so far."""
        return self._recorder.spans

    async def run(self) -> RunningEngine:
        """T1 to T8. Raises StartFailed; cancelled, it kills and reaps the process group first."""
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
        except Exception as error:  # whatever it was, the start has failed and its processes must go
            broken = Fault(FailureCause.SPAWN_FAILED, f"the start broke off: {type(error).__name__}: {error}")
            raise await self._failed(broken) from error

    def admit(self, at: datetime) -> StartRecord:
        """T9: the replica is given requests from `at` on. Spans may complete the record for some seconds more."""
        self._recorder.reach(Mark.T9, at)
        with contextlib.suppress(OSError):  # without its mark the next start merely counts as cold
            remember_compiled(self._dirs, self._spec)
        self._recorder.change(outcome="ready")
        self._compiled.publish()
        asyncio.get_running_loop().call_later(LATE_SPANS_S, self._unsubscribe)
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
        await self._preparation.run(taken)
        process, gate = await self._launch()
        served_name = self._spec.served_names[0]
        await self._watch.or_end(process, wait_until_serving(gate.url, served_name, self._server_up, gate.headers))
        self._drop_credential()
        proven = self._clock()
        self._recorder.end(Stage.READY_PROBE, proven)
        self._recorder.begin(Stage.GOLDEN_PROMPT, proven)
        spec, key = self._spec, self._recorder.record.golden_key
        golden = ask_golden(gate.url, served_name, spec.golden, spec.start_timeout_s, key, gate.headers)
        tokens = await self._watch.or_end(process, golden)
        answered = self._clock()
        self._recorder.reach(Mark.T8, answered)
        self._recorder.end(Stage.GOLDEN_PROMPT, answered)
        self._recorder.change(golden_tokens=tokens)
        await self._compiled.proven()
        await self._watch.or_end(process, gate.open())
        return RunningEngine(
            process=process,
            gate=gate,
            log=self._dirs.log,
            oom=self._watch.oom,
            clock=self._clock,
            on_end=self._unsubscribe,
        )

    async def _launch(self) -> tuple[EngineProcess, GateControl]:
        self._recorder.begin(Stage.FORK, self._clock())
        self._recorder.change()
        try:
            self._credential = HeldCredential()
        except OSError as error:
            raise Fault(FailureCause.SPAWN_FAILED, f"the engine cannot be started: {error}") from error
        launched = await self._launcher.launch(
            self._spec,
            self._dirs,
            self._subscribe(),
            self._credential,
            on_line=self._line,
            clock=self._clock,
            caches=self._compiled.environment,
            no_fork=self._no_fork,
        )
        self._process = launched.process
        self._watch.begin(self._process)
        self.url = launched.gate.url
        begun = self._clock()
        self._recorder.end(Stage.FORK, begun)
        self._recorder.reach(Mark.T4, begun)
        if not launched.forked and self._recorder.record.kind is StartKind.FORK:
            self._recorder.change(kind=StartKind.CACHED_NODE)
        self._recorder.change(forked=launched.forked, spawned_because=launched.spawned_because)
        return self._process, launched.gate

    def _line(self, at: datetime, text: str) -> None:
        self._watch.line(text)
        self._compiled.line(text)
        if Stage.SERVER in self._recorder.line(at, text):
            self._server_up.set()
        if self._recorder.reached(Mark.T5):
            self._preparation.stop_reading()

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

    async def _failed(self, fault: Fault) -> StartFailed:
        failure = fault.at(self._clock())
        await self._compiled.blame(failure)
        if self._process is not None and not failure.tail:
            failure = failure.model_copy(update={"tail": excerpt(self._process.tail)})
        await self._clear()
        self._recorder.change(outcome="failed", failure=failure)
        return StartFailed(failure)

    async def _clear(self) -> None:
        self._unsubscribe()
        self._drop_credential()
        self._preparation.stop_reading()
        if self._process is not None:
            self._process.kill()
            await self._process.clear()
        await self._compiled.abandon(begun=self._process is not None)

    def _drop_credential(self) -> None:
        """It has been read, or nobody reads it any more."""
        if self._credential is not None:
            self._credential.close()

    def _subscribe(self) -> Tracing | None:
        if self._receiver is None:
            return None
        self._receiver.subscribe(self.trace_id, self._recorder.take_spans)
        return Tracing(
            endpoint=self._receiver.endpoint,
            headers=self._receiver.headers,
            traceparent=f"00-{self.trace_id}-{secrets.token_hex(8)}-01",
        )

    def _unsubscribe(self) -> None:
        if self._receiver is not None:
            self._receiver.unsubscribe(self.trace_id)
