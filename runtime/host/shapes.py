"""The capture sizes of one host's services: what engines computed is kept, and the next starts get sizes by it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from runtime.contract import EngineSpec
from runtime.engine.capture.choice import Choice, choose
from runtime.engine.capture.given import given
from runtime.engine.capture.record import NAME, Record, read, write

FLAG = "--cudagraph-capture-sizes"


@dataclass(frozen=True, slots=True)
class Shaped:
    """The spec that an engine is started from, and why it has these sizes or vLLM's own."""

    spec: EngineSpec
    why: str


@dataclass
class _Known:
    record: Record
    choice: Choice


class Shapes:
    """`root`: the host's directory, with one below it for each service, which no other process writes to.

    What could not be read or written is begun anew; nothing here fails a start. `adopt` False: steps are counted and
    told, and vLLM's own sizes stay. Others are paid for by one compile, which a root that goes with its pod never
    earns back.
    """

    def __init__(self, root: Path, clock: Callable[[], datetime], *, adopt: bool = True) -> None:
        self._root, self._clock, self._adopt = root, clock, adopt
        self._known: dict[str, _Known] = {}

    def shaped(self, spec: EngineSpec) -> Shaped:
        """`spec` with the capture sizes of its service; as it is where vLLM's own stay."""
        limits = given(spec)
        if limits.why_not is not None:
            return Shaped(spec, f"vLLM's own sizes: {limits.why_not}")
        choice = self._of(spec.service, limits.max_num_seqs).choice
        if choice.sizes is None:
            return Shaped(spec, choice.why)
        if not self._adopt:
            return Shaped(spec, f"vLLM's own sizes, as none were asked for; would fit: {choice.why}")
        args = (*spec.args, FLAG, *map(str, choice.sizes))
        return Shaped(spec.model_copy(update={"args": args}), choice.why)

    def taker(self, spec: EngineSpec) -> Callable[[Mapping[int, float]], None] | None:
        """Where to tell the steps that engines of `spec`, as it was ordered, compute; None where sizes are not ours.

        The sizes of the next start are chosen with them.
        """
        limits = given(spec)
        if limits.why_not is not None:
            return None

        def take(steps: Mapping[int, float]) -> None:
            # A replica of an older spec serves on for a while: its steps count, its limit no longer does.
            known = self._known.get(spec.service) or self._of(spec.service, limits.max_num_seqs)
            known.record = known.record.with_steps(steps, self._clock())
            self._choose(known, known.record.max_num_seqs or limits.max_num_seqs)
            write(self._root / spec.service / NAME, known.record)

        return take

    def forget(self, service: str) -> None:
        """The service is gone, and its directory with it."""
        self._known.pop(service, None)

    def _of(self, service: str, max_num_seqs: int) -> _Known:
        known = self._known.get(service)
        if known is None:
            known = self._known[service] = _Known(read(self._root / service / NAME), Choice(None, ""))
            self._choose(known, max_num_seqs)
        elif known.record.max_num_seqs != max_num_seqs:
            self._choose(known, max_num_seqs)
        return known

    def _choose(self, known: _Known, max_num_seqs: int) -> None:
        """Sizes that were chosen for another limit are none: that start compiles anyway."""
        before = known.record
        present = before.sizes if before.max_num_seqs == max_num_seqs else None
        known.choice = choose(before.steps, max_num_seqs, present)
        known.record = Record(before.steps, before.at, max_num_seqs, known.choice.sizes)
