"""One start of one engine, T0 to T9: prove the model, begin the process, follow its stages, ask it, admit it.

The host owns retries and the decision to admit; this owns the process from its first to its last instant.
"""

import asyncio
import contextlib
import hashlib
import json
import secrets
from collections.abc import Callable
from datetime import UTC, datetime

from runtime.cache.start_cache import StartCache
from runtime.contract import (
    STUCK_AFTER_S,
    EngineSpec,
    Failure,
    FailureCause,
    Mark,
    Stage,
    StageEvent,
    StageTime,
    StartKind,
    StartRecord,
    ready_seconds,
)
from runtime.engine.argv import Tracing, platform_of
from runtime.engine.cache_kind import remember_compiled
from runtime.engine.dirs import EngineDirs
from runtime.engine.launch import Launcher
from runtime.engine.lines import excerpt, read_line
from runtime.engine.marker import parse as parse_marker
from runtime.engine.platforms import Span
from runtime.engine.process import EngineProcess
from runtime.engine.running import RunningEngine
from runtime.engine.spans import SpanReceiver
from runtime.engine.stages import StageTracker, attributed
from runtime.engine.watch import StartWatch, stage_name
from runtime.ready.fault import Fault
from runtime.ready.gate_control import GateControl
from runtime.ready.gate_credential import HeldCredential
from runtime.ready.golden import ask_golden, golden_key
from runtime.ready.probe import wait_until_serving
from runtime.ready.stamp import model_stamp
from runtime.weights.integrity import Needs, prove_model
from runtime.weights.read_ahead import ReadAhead, read_ahead

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
    """One start. `run` once, then `admit` once; `record`, `stage`, `url` and `pid` may be read at any time.

    `model_stamp`: how the model's files stood when the start looked at them first.
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
    ) -> None:
        self._spec, self._dirs, self._clock = spec, dirs, clock
        self._launcher, self._no_fork = launcher, no_fork
        self._watch = StartWatch(log=dirs.log, stuck_after_s=stuck_after_s, stage=lambda: self.stage)
        self._on_change, self._on_stage = on_change, on_stage
        self._receiver, self.trace_id = spans, secrets.token_hex(16)
        self._tracker = StageTracker(platform_of(spec))
        self._server_up = asyncio.Event()
        self._process: EngineProcess | None = None
        self._credential: HeldCredential | None = None
        self._cache: StartCache | None = None
        self._ahead: ReadAhead | None = None
        self._publishing: asyncio.Task[None] | None = None
        self.url: str | None = None
        self.model_stamp: str | None = None
        self._record = StartRecord(
            id=start_id,
            service=spec.service,
            replica=replica,
            kind=launcher.kind(spec, dirs, no_fork),
            why=why,
            spawned_because=no_fork,
        )
        self._tracker.reach(Mark.T0, asked_at)
        self._tracker.begin(Stage.ORDER, asked_at)
        self._refresh()

    @property
    def record(self) -> StartRecord:
        """The start as known now."""
        return self._record

    @property
    def stage(self) -> Stage | None:
        """The stage under way; None between stages and once the start is over."""
        return self._tracker.current if self._record.outcome is None else None

    @property
    def pid(self) -> int | None:
        """The engine leader's pid, None before T4."""
        return self._process.pid if self._process else None

    @property
    def spans(self) -> tuple[Span, ...]:
        """The engine's own spans of this start so far."""
        return self._tracker.spans

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
            self._change(outcome="cancelled")
            raise
        except Exception as error:  # whatever it was, the start has failed and its processes must go
            broken = Fault(FailureCause.SPAWN_FAILED, f"the start broke off: {type(error).__name__}: {error}")
            raise await self._failed(broken) from error

    def admit(self, at: datetime) -> StartRecord:
        """T9: the replica is given requests from `at` on. Spans may complete the record for some seconds more."""
        self._tracker.reach(Mark.T9, at)
        with contextlib.suppress(OSError):  # without its mark the next start merely counts as cold
            remember_compiled(self._dirs, self._spec)
        self._change(outcome="ready")
        if self._cache is not None:
            self._publishing = asyncio.create_task(self._publish(self._cache))
        asyncio.get_running_loop().call_later(LATE_SPANS_S, self._unsubscribe)
        return self._record

    def note_warmed(self, at: datetime) -> StartRecord:
        """Every shape has been computed once: the second level of readiness."""
        self._change(warmed_at=at)
        return self._record

    async def note_end(self, failure: Failure) -> StartRecord:
        """The engine that had become ready has ended by itself."""
        await self._blame(failure)
        self._change(ended=failure)
        return self._record

    async def _run(self) -> RunningEngine:
        taken = self._clock()
        self._tracker.reach(Mark.T1, taken)
        self._tracker.reach(Mark.T2, taken)  # the image is here: we run in it
        self._finish(self._tracker.end(Stage.ORDER, taken))
        try:
            self._dirs.make()
        except OSError as error:
            raise Fault(FailureCause.SPAWN_FAILED, f"the engine's directory cannot be made: {error}") from error
        self.model_stamp = await asyncio.to_thread(model_stamp, self._spec.model)
        await self._prepare(taken)
        process, gate = await self._launch()
        served_name = self._spec.served_names[0]
        await self._watch.or_end(process, wait_until_serving(gate.url, served_name, self._server_up, gate.headers))
        self._drop_credential()
        proven = self._clock()
        self._finish(self._tracker.end(Stage.READY_PROBE, proven))
        self._tracker.begin(Stage.GOLDEN_PROMPT, proven)
        spec, key = self._spec, self._record.golden_key
        golden = ask_golden(gate.url, served_name, spec.golden, spec.start_timeout_s, key, gate.headers)
        tokens = await self._watch.or_end(process, golden)
        answered = self._clock()
        self._tracker.reach(Mark.T8, answered)
        self._finish(self._tracker.end(Stage.GOLDEN_PROMPT, answered))
        self._change(golden_tokens=tokens)
        if self._cache is not None:
            self._change(cache=await self._cache.proven(self._compile_s()))
        await self._watch.or_end(process, gate.open())
        return RunningEngine(
            process=process,
            gate=gate,
            log=self._dirs.log,
            oom=self._watch.oom,
            clock=self._clock,
            on_end=self._unsubscribe,
        )

    async def _prepare(self, begun: datetime) -> None:
        """The model is proven and the compile cache found, side by side: neither reads what the other does."""
        caching = asyncio.create_task(self._find_cache(begun))
        try:
            await self._prove_model(begun)
            await caching
        finally:
            caching.cancel()
            await asyncio.gather(caching, return_exceptions=True)

    async def _find_cache(self, begun: datetime) -> None:
        self._tracker.begin(Stage.CACHE_RESTORE, begun)
        self._cache = await self._launcher.find_cache(self._spec, self._dirs)
        self._finish(self._tracker.end(Stage.CACHE_RESTORE, self._clock()))
        if self._cache is not None:
            kind = self._launcher.kind_with(self._spec, cached=self._cache.found, no_fork=self._no_fork)
            self._change(cache=self._cache.use, kind=kind)

    async def _prove_model(self, begun: datetime) -> None:
        self._tracker.begin(Stage.MODEL_CHECK, begun)
        self._change()
        facts = await prove_model(self._spec.model, Needs.of(self._spec.args), self._dirs.digests)
        proven = self._clock()
        self._tracker.carries(Stage.MODEL_CHECK, facts.weight_bytes)
        self._tracker.carries(Stage.WEIGHT_LOAD, facts.weight_bytes)
        self._tracker.reach(Mark.T3, proven)
        self._ahead = read_ahead(facts)
        self._finish(self._tracker.end(Stage.MODEL_CHECK, proven))
        self._change(model_digest=facts.digest, golden_key=golden_key(facts.digest, self._spec))

    async def _launch(self) -> tuple[EngineProcess, GateControl]:
        self._tracker.begin(Stage.FORK, self._clock())
        self._change()
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
            caches=self._cache.environment if self._cache else None,
            no_fork=self._no_fork,
        )
        self._process = launched.process
        self._watch.begin(self._process)
        self.url = launched.gate.url
        begun = self._clock()
        self._finish(self._tracker.end(Stage.FORK, begun))
        self._tracker.reach(Mark.T4, begun)
        if not launched.forked and self._record.kind is StartKind.FORK:
            self._change(kind=StartKind.CACHED_NODE)
        self._change(forked=launched.forked, spawned_because=launched.spawned_because)
        return self._process, launched.gate

    def _line(self, at: datetime, text: str) -> None:
        marker = parse_marker(text)
        begun = self.stage
        self._watch.line(text)
        if self._cache is not None:
            self._cache.line(text)
        finished = self._tracker.marker(marker) if marker else self._tracker.line(read_line(at, text))
        if any(stage.stage is Stage.SERVER for stage in finished):
            self._server_up.set()
        self._finish(finished)
        if self._ahead is not None and Mark.T5 in self._tracker.marks:
            self._ahead.stop()
        if self.stage is not begun or finished:
            self._change()

    def _take_spans(self, spans: tuple[Span, ...]) -> None:
        before = self._tracker.stages
        self._finish(self._tracker.take_spans(spans))
        if self._tracker.stages != before:
            self._change()

    def _finish(self, stages: tuple[StageTime, ...]) -> None:
        for done in stages:
            self._on_stage(
                StageEvent(
                    service=self._record.service,
                    replica=self._record.replica,
                    start_id=self._record.id,
                    stage=done.stage,
                    elapsed_ms=done.elapsed_ms,
                    bytes=done.bytes,
                    at=self._clock(),
                )
            )

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
        if self._publishing is not None:
            await asyncio.shield(self._publishing)
        return self._record

    async def close(self) -> None:
        """The replica has ended: nothing of the start is at work any more."""
        if self._publishing is not None:
            self._publishing.cancel()
            await asyncio.gather(self._publishing, return_exceptions=True)
        if self._cache is not None:
            await self._cache.close()

    async def _publish(self, cache: StartCache) -> None:
        """Offer what was compiled to the stores, beside the first requests: some megabytes, in a thread."""
        shelf, tokens = self._launcher.shelf, self._record.golden_tokens
        if shelf is not None:
            golden = None if tokens is None else hashlib.sha256(json.dumps(tokens).encode()).hexdigest()
            self._change(cache=await shelf.publish(cache, golden=golden, compile_s=self._compile_s()))

    async def _blame(self, failure: Failure) -> None:
        """Whether what lay in the cache is to blame, so that the next start does without."""
        begun = self._tracker.marks.get(Mark.T4)
        if self._cache is None or self._launcher.shelf is None or begun is None:
            return
        seconds = (failure.at - begun).total_seconds()
        if why := await self._launcher.shelf.blame(self._cache, failure, seconds):
            self._change(cache=self._cache.noted(f"put aside: {why}"))

    def _compile_s(self) -> float | None:
        took = [stage.elapsed_ms / 1000 for stage in self._tracker.stages if stage.stage is Stage.COMPILE]
        return round(took[0], 3) if took else None

    async def _failed(self, fault: Fault) -> StartFailed:
        failure = fault.at(self._clock())
        await self._blame(failure)
        if self._process is not None and not failure.tail:
            failure = failure.model_copy(update={"tail": excerpt(self._process.tail)})
        await self._clear()
        self._change(outcome="failed", failure=failure)
        return StartFailed(failure)

    async def _clear(self) -> None:
        self._unsubscribe()
        self._drop_credential()
        if self._ahead is not None:
            self._ahead.stop()
        if self._process is not None:
            self._process.kill()
            await self._process.clear()
        if self._cache is not None:
            await self._cache.close(begun=self._process is not None)

    def _drop_credential(self) -> None:
        """It has been read, or nobody reads it any more."""
        if self._credential is not None:
            self._credential.close()

    def _subscribe(self) -> Tracing | None:
        if self._receiver is None:
            return None
        self._receiver.subscribe(self.trace_id, self._take_spans)
        return Tracing(
            endpoint=self._receiver.endpoint,
            headers=self._receiver.headers,
            traceparent=f"00-{self.trace_id}-{secrets.token_hex(8)}-01",
        )

    def _unsubscribe(self) -> None:
        if self._receiver is not None:
            self._receiver.unsubscribe(self.trace_id)

    def _change(self, **update: object) -> None:
        self._refresh(**update)
        self._on_change(self)

    def _refresh(self, **update: object) -> None:
        marks, stages = dict(sorted(self._tracker.marks.items())), self._tracker.stages
        seconds = ready_seconds(marks)
        share = attributed(stages, marks[Mark.T0], marks[Mark.T9]) if seconds is not None else None
        self._record = self._record.model_copy(
            update={"marks": marks, "stages": stages, "ready_s": seconds, "attributed": share, **update}
        )
