"""Before an engine begins: its model is proven and read ahead, its machine looked at, its compile cache found."""

import asyncio
import os
from dataclasses import dataclass
from datetime import datetime

from runtime.aside import aside
from runtime.contract import EngineSpec, FailureCause, Mark, Stage
from runtime.engine.argv import import_environment
from runtime.engine.compiled import CompiledCode
from runtime.engine.dirs import EngineDirs
from runtime.engine.recorder import Recorder
from runtime.engine.weight_sources import WeightSources
from runtime.ready.fault import Fault
from runtime.ready.golden import golden_key
from runtime.ready.stamp import model_stamp
from runtime.weights.before import look
from runtime.weights.integrity import Needs, prove_model
from runtime.weights.read_ahead import ReadAhead, read_ahead


@dataclass
class Preparation:
    """What one start finds before its engine begins; `run` once, `stop_reading` at any time.

    `model_stamp`: how the model's files stood when the start looked at them first. `no_fork`: why its engine will be no
    fork.
    """

    spec: EngineSpec
    dirs: EngineDirs
    recorder: Recorder
    compiled: CompiledCode
    sources: WeightSources
    no_fork: str | None = None
    model_stamp: str | None = None
    _ahead: ReadAhead | None = None

    async def run(self, begun: datetime, *, compiled: bool = True) -> None:
        """Prove the model and find the compile cache, side by side: neither reads what the other does. Raises Fault.

        `compiled` False: no compile cache is looked for yet, since the engine will probably need none.

        A machine on which the weights have no room is a Fault, too: nothing is spent on a start that would fail.
        """
        try:
            self.dirs.make()
        except OSError as error:
            raise Fault(FailureCause.SPAWN_FAILED, f"the engine's directory cannot be made: {error}") from error
        self.model_stamp = await aside(model_stamp, self.spec.model)
        if not compiled:
            await self._prove_model(begun)
            return
        caching = asyncio.create_task(self.compiled.find(self.spec, self.dirs, begun, self.no_fork))
        try:
            await self._prove_model(begun)
            await caching
        finally:
            caching.cancel()
            await asyncio.gather(caching, return_exceptions=True)

    def stop_reading(self) -> None:
        """The weights are in place, or nobody wants them any more."""
        if self._ahead is not None:
            self._ahead.stop()

    async def _prove_model(self, begun: datetime) -> None:
        self.recorder.begin(Stage.MODEL_CHECK, begun)
        self.recorder.change()
        environ, needs = self._environ(), Needs.of(self.spec.args, pickle=self.spec.pickle)
        facts = await prove_model(self.spec.model, needs, self.dirs.digests, environ)
        seen = await aside(look, self.spec.model, facts, self.spec.args, environ, on_host=self.spec.platform == "cpu")
        seen.refuse()
        await self.sources.plan(seen)
        proven = self.recorder.clock()
        self.recorder.carries(Stage.MODEL_CHECK, facts.weight_bytes)
        self.recorder.carries(Stage.WEIGHT_LOAD, facts.weight_bytes)
        self.recorder.reach(Mark.T3, proven)
        self._ahead = read_ahead(facts)
        self.recorder.end(Stage.MODEL_CHECK, proven)
        self.recorder.change(model_digest=facts.digest, golden_key=golden_key(facts.digest, self.spec))

    def _environ(self) -> dict[str, str]:
        """The engine's own environment, for the host's may reach what the engine's does not."""
        try:
            environ = import_environment(self.spec, os.environ)
            if assets := environ.get("VLLM_ASSETS_CACHE"):  # from the engine's working directory
                environ["VLLM_ASSETS_CACHE"] = str(self.dirs.run / assets)
            return environ
        except ValueError:  # what no engine may have: the launch says so
            return {}
