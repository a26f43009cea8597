"""What differs between the platforms, as data that the stage tracker and the launcher read.

A rule ties evidence to the edges of stages: a log line or a span *ends* some stages and *begins* others.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from runtime.contract import EngineSpec, Mark, Stage


@dataclass(frozen=True, slots=True)
class LineRule:
    """A log line that is the edge of stages. Ending a stage that is not under way means nothing.

    A group `took` in the pattern holds seconds by which the edge lies before the line; `mark` is reached at the edge.
    """

    pattern: re.Pattern[str]
    ends: tuple[Stage, ...] = ()
    begins: tuple[Stage, ...] = ()
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """One of vLLM's own OpenTelemetry spans, ended."""

    name: str
    begin: datetime
    end: datetime
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class SpanEdge:
    """The begin or end of the span called `name`; of several so called, the first begin and the last end."""

    name: str
    edge: Literal["begin", "end"]


@dataclass(frozen=True, slots=True)
class SpanCheck:
    """`stages`, one after the other, last as long as the time between two span edges: our lines against vLLM's clock.

    Where `stages` is a single one, that time is its `span_s`.
    """

    stages: tuple[Stage, ...]
    begin: SpanEdge
    end: SpanEdge

    @classmethod
    def whole(cls, stage: Stage, name: str) -> "SpanCheck":
        """One stage, one span."""
        return cls((stage,), SpanEdge(name, "begin"), SpanEdge(name, "end"))


@dataclass(frozen=True, slots=True)
class SpanRule:
    """A span that begins or ends a stage which has no log line on this platform."""

    name: str
    edge: Literal["begin", "end"]
    begins: tuple[Stage, ...] = ()
    ends: tuple[Stage, ...] = ()


class Platform(Protocol):
    """One kind of device: its flags, its environment, its evidence."""

    @property
    def lines(self) -> tuple[LineRule, ...]:
        """Rules for log lines; all that match apply, in this order."""

    @property
    def spans(self) -> tuple[SpanRule, ...]:
        """Rules for stages that only spans show."""

    @property
    def checks(self) -> tuple[SpanCheck, ...]:
        """Which spans confirm which stages."""

    def args(self, spec: EngineSpec) -> tuple[str, ...]:
        """The vLLM arguments that this platform needs before those of the spec."""

    def env(self, spec: EngineSpec) -> Mapping[str, str]:
        """Environment that this platform needs; the spec's own values win."""


def rule(
    pattern: str, *, ends: tuple[Stage, ...] = (), begins: tuple[Stage, ...] = (), mark: Mark | None = None
) -> LineRule:
    """A LineRule from a regular expression, searched anywhere in the text of a line."""
    return LineRule(re.compile(pattern), ends, begins, mark)


COMMON_LINES: tuple[LineRule, ...] = (
    # On CUDA with one GPU the Worker lives inside EngineCore: no process of its own marks where construction ends.
    rule(
        r"world_size=\d+ rank=\d+ local_rank=\d+ distributed_init_method",
        ends=(Stage.ENGINE_CONSTRUCTION,),
        begins=(Stage.DEVICE_INIT,),
    ),
    rule(
        r"Starting to load model ",
        ends=(Stage.ENGINE_CONSTRUCTION, Stage.DEVICE_INIT),
        begins=(Stage.MODEL_CONSTRUCTION,),
    ),
    rule(r"Initializing model took ", ends=(Stage.MODEL_CONSTRUCTION,), begins=(Stage.WEIGHT_LOAD,)),
    rule(r"Loading weights took ", ends=(Stage.WEIGHT_LOAD,), begins=(Stage.WEIGHT_CONVERT,)),
    rule(
        r"init engine \(profile, create kv cache, warmup model\) took ",
        begins=(Stage.ENGINE_READY,),
        mark=Mark.T7,
    ),
    rule(r"Supported tasks: ", ends=(Stage.ENGINE_READY,), begins=(Stage.SERVER,)),
    rule(r"Application startup complete\.", ends=(Stage.SERVER,), begins=(Stage.READY_PROBE,)),
)
"""Lines that vLLM 0.32 prints on each platform."""

COMMON_CHECKS: tuple[SpanCheck, ...] = (
    SpanCheck(
        (Stage.INTERPRETER_CORE, Stage.IMPORTS_CORE),
        SpanEdge("AsyncMPClient init", "begin"),
        SpanEdge("EngineCoreProc init", "begin"),
    ),
    SpanCheck.whole(Stage.MODEL_CONSTRUCTION, "Initialize model"),
    SpanCheck.whole(Stage.WEIGHT_LOAD, "Load weights"),
    SpanCheck((Stage.WEIGHT_CONVERT,), SpanEdge("Load weights", "end"), SpanEdge("Load model", "end")),
    SpanCheck((Stage.ENGINE_READY,), SpanEdge("Prepare model", "end"), SpanEdge("Overall Loading", "end")),
)
