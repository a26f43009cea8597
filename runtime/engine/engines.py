"""The engines of one start, T4 until one serves: usually one; where a loader fails, another with the next source."""

import asyncio
import secrets
from datetime import datetime

from runtime.contract import EngineSpec, FailureCause, Mark, Stage, StartKind
from runtime.engine.argv import Tracing
from runtime.engine.compiled import CompiledCode
from runtime.engine.dirs import EngineDirs
from runtime.engine.launch import Launcher
from runtime.engine.preparation import Preparation
from runtime.engine.process import EngineProcess
from runtime.engine.recorder import Recorder
from runtime.engine.spans import SpanReceiver
from runtime.engine.watch import StartWatch
from runtime.ready.fault import Fault
from runtime.ready.gate_control import GateControl
from runtime.ready.gate_credential import HeldCredential
from runtime.ready.probe import wait_until_serving


class Engines:
    """Those of one start, one at a time. `process`, `url` and `trace_id` are of the one that there is, if any.

    `preparation` has run before `serving` is called.
    """

    def __init__(
        self,
        spec: EngineSpec,
        dirs: EngineDirs,
        launcher: Launcher,
        recorder: Recorder,
        compiled: CompiledCode,
        preparation: Preparation,
        *,
        spans: SpanReceiver | None,
        stuck_after_s: float,
        no_fork: str | None,
    ) -> None:
        self._spec, self._dirs, self._launcher, self._no_fork = spec, dirs, launcher, no_fork
        self._recorder, self._compiled, self._preparation = recorder, compiled, preparation
        self._receiver = spans
        self._server_up = asyncio.Event()
        self._credential: HeldCredential | None = None
        self.watch = StartWatch(log=dirs.log, stuck_after_s=stuck_after_s, stage=lambda: recorder.stage)
        self.trace_id = secrets.token_hex(16)
        self.process: EngineProcess | None = None
        self.url: str | None = None

    async def serving(self) -> tuple[EngineProcess, GateControl]:
        """One that serves. An engine whose loader fails is followed by another in a fresh process. Raises Fault."""
        name = self._spec.served_names[0]
        while True:
            process, gate = await self._launch()
            try:
                await self.watch.or_end(process, wait_until_serving(gate.url, name, self._server_up, gate.headers))
            except Fault as fault:
                if not self._preparation.sources.follow(fault, self._recorder.stage):
                    raise
                await self._start_over()
            else:
                self._drop_credential()
                self._preparation.sources.loaded()
                return process, gate

    async def clear(self) -> None:
        """Leave no process and nothing that was lent to one."""
        self.unsubscribe()
        self._drop_credential()
        if self.process is not None:
            self.process.kill()
            await self.process.clear()

    def unsubscribe(self) -> None:
        """No span is wanted any more."""
        if self._receiver is not None:
            self._receiver.unsubscribe(self.trace_id)

    async def _start_over(self) -> None:
        """Nothing of an engine that came to nothing is left, and the next one is told apart from it."""
        await self.clear()
        self.process, self.url, self.trace_id = None, None, secrets.token_hex(16)
        self._server_up.clear()
        self._recorder.start_over(self._recorder.clock())

    async def _launch(self) -> tuple[EngineProcess, GateControl]:
        clock = self._recorder.clock
        self._recorder.begin(Stage.FORK, clock())
        self._recorder.change()
        try:
            self._credential = HeldCredential()
        except OSError as error:
            raise Fault(FailureCause.SPAWN_FAILED, f"the engine cannot be started: {error}") from error
        launched = await self._launcher.launch(
            self._preparation.sources.spec,
            self._dirs,
            self._subscribe(),
            self._credential,
            on_line=self._line,
            clock=clock,
            caches=self._compiled.environment,
            no_fork=self._no_fork,
        )
        self.process = launched.process
        self.watch.begin(self.process)
        self.url = launched.gate.url
        begun = clock()
        self._recorder.end(Stage.FORK, begun)
        self._recorder.reach(Mark.T4, begun)
        if not launched.forked and self._recorder.record.kind is StartKind.FORK:
            self._recorder.change(kind=StartKind.CACHED_NODE)
        self._recorder.change(forked=launched.forked, spawned_because=launched.spawned_because)
        return self.process, launched.gate

    def _line(self, at: datetime, text: str) -> None:
        self.watch.line(text)
        self._compiled.line(text)
        self._preparation.sources.line(text)
        if Stage.SERVER in self._recorder.line(at, text):
            self._server_up.set()
        if self._recorder.reached(Mark.T5):
            self._preparation.stop_reading()

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
