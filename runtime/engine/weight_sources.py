"""By which way a start gets its weights, what became of each way it tried, and which one is next."""

import os
from dataclasses import replace
from pathlib import Path

from runtime.aside import aside
from runtime.contract import EngineSpec, Stage, WeightsTry, WeightsUse
from runtime.engine.recorder import Recorder
from runtime.ready.fault import Fault
from runtime.weights.before import Seen
from runtime.weights.here import here
from runtime.weights.integrity import is_url
from runtime.weights.peer import read_outcome
from runtime.weights.plan import Attempt, Wanted, attempts, loader_failed, next_attempt
from runtime.weights.safetensors import largest_tensor
from runtime.weights.versions import versions
from runtime.weights.winners import Winners, node_name

MOST_TOLD = 300
"""Characters of a failure that the record keeps for each way; the last one's failure is kept whole."""


class WeightSources:
    """One start's. `plan` first; `spec` is the service's own, with what the way that is tried now adds to it.

    `measured`: the file that remembers which loader was fastest; None: nothing was measured here.
    """

    def __init__(self, spec: EngineSpec, recorder: Recorder, measured: Path | None) -> None:
        self._ordered, self._recorder, self._measured = spec, recorder, measured
        self._plan: tuple[Attempt, ...] = ()
        self._tried: list[Attempt] = []
        self._peer_lines: list[str] = []
        self.spec = spec

    async def plan(self, seen: Seen) -> None:
        """Order the ways from what was seen of model and machine, and take the first."""
        self._plan = await aside(planned, self._ordered, seen, self._measured)
        self._take(self._plan[0])
        self._change(notes=seen.notes)

    def line(self, text: str) -> None:
        """Take one line of the engine's output: ModelExpress tells in them where the weights came from."""
        if "trategy" in text and "[Worker " in text:
            self._peer_lines.append(text)

    def loaded(self) -> None:
        """The engine has its weights."""
        if self._peer_lines:
            outcome = read_outcome(self._peer_lines)
            self._change(peer=str(outcome), fell_back=outcome.fell_back)

    def follow(self, fault: Fault, stage: Stage | None) -> bool:
        """Whether another way is to be tried after an engine that failed in `stage`; it is then the one of `spec`."""
        if not self._tried or not loader_failed(fault.cause, stage):
            return False
        if stage is Stage.CONFIGURATION and self.spec.args == self._ordered.args:
            return False  # nothing of the loader's was configured
        told = str(fault)[:MOST_TOLD]
        *before, last = self._use.tries
        self._change(tries=(*before, last.model_copy(update={"cause": fault.cause, "stage": stage, "failed": told})))
        self._peer_lines.clear()
        following = next_attempt(self._plan, [each.loader for each in self._tried], fault.cause, stage)
        if following is not None:
            self._take(following)
        return following is not None

    @property
    def _use(self) -> WeightsUse:
        return self._recorder.record.weights

    def _take(self, attempt: Attempt) -> None:
        self._tried.append(attempt)
        # The service's own variables win, its arguments come first: of two, vLLM takes the last.
        update = {
            "model": attempt.model,
            "args": (*self._ordered.args, *attempt.args),
            "env": {**attempt.env, **self._ordered.env},
        }
        self.spec = self._ordered.model_copy(update=update)
        this = WeightsTry(loader=attempt.loader, source=attempt.source, why=attempt.why)
        self._change(tries=(*self._use.tries, this))

    def _change(self, **update: object) -> None:
        self._recorder.change(weights=self._use.model_copy(update=update))


def planned(spec: EngineSpec, seen: Seen, measured: Path | None) -> tuple[Attempt, ...]:
    """All ways for this service on this machine, best first; reads the file of measurements."""
    url = is_url(spec.model)
    machine, proven = seen.machine, seen.model
    seconds: dict[str, float] = {}
    if measured is not None and measured.is_file():
        key = spec.model if url else proven.digest or spec.model
        seconds = Winners(measured).recall(node_name(os.environ), key, versions(), cold=True)
    streamed = url or any("streamer" in name for name in (*seconds, *spec.args))
    wanted = Wanted(
        here=replace(here(spec.model, spec.env), cuda=spec.platform == "cuda"),
        directory=None if url else spec.model,
        url=spec.model if url else None,
        args=spec.args,
        env=spec.env,
        memory=machine.memory,
        weight_bytes=machine.weight_bytes,
        medium=machine.weights.medium if machine.weights is not None else "unknown",
        ranks=machine.ranks,
        largest_tensor_bytes=(machine.largest_tensor_bytes or largest_tensor(proven.weights)) if streamed else 0,
        tensors_file=None if url else _tensors_file(Path(spec.model)),
        local_seconds={} if url else seconds,
        url_seconds=seconds if url else {},
    )
    return attempts(wanted)


def _tensors_file(directory: Path) -> str | None:
    found = sorted(directory.glob("*.tensors"))
    return str(found[0]) if found else None
