"""Evidence → stages and marks. Pure: instants come in with the evidence, nothing is read or timed here.

A stage needs evidence for its begin and for its end; without both it is not named, and the time stays unnamed. Each
stage is recorded once: with several workers the first that speaks counts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from runtime.contract import Mark, Stage, StageTime
from runtime.engine.lines import EngineLine
from runtime.engine.marker import Marker, Role
from runtime.engine.platforms import LineRule, Platform, Span, SpanCheck, SpanEdge

Evidence = Literal["log", "marker", "span", "host"]

_PROCESS_STAGES: Mapping[Role, tuple[Stage, Stage, Stage | None, Stage]] = {
    # role: (interpreter, imports, what its creation ends, what its end of imports begins)
    "api": (Stage.INTERPRETER_API, Stage.IMPORTS_API, None, Stage.CONFIGURATION),
    "core": (Stage.INTERPRETER_CORE, Stage.IMPORTS_CORE, Stage.CONFIGURATION, Stage.ENGINE_CONSTRUCTION),
    "worker": (Stage.INTERPRETER_WORKER, Stage.IMPORTS_WORKER, Stage.ENGINE_CONSTRUCTION, Stage.DEVICE_INIT),
}


_BEFORE_AN_ENGINE = frozenset({Stage.ORDER, Stage.MODEL_CHECK, Stage.CACHE_RESTORE, Stage.SNAPSHOT_RESTORE})


@dataclass(frozen=True, slots=True)
class _Open:
    at: datetime
    evidence: Evidence
    pid: int | None


class StageTracker:
    """The stages of one start as their evidence arrives, in any order that a start can bring it."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._names = {rule.name for rule in platform.spans} | {
            edge.name for check in platform.checks for edge in (check.begin, check.end)
        }
        self._open: dict[Stage, _Open] = {}
        self._done: dict[Stage, StageTime] = {}
        self._spans: list[Span] = []
        self._bytes: dict[Stage, int] = {}
        self.marks: dict[Mark, datetime] = {}

    @property
    def stages(self) -> tuple[StageTime, ...]:
        """Finished stages in the order in which they began."""
        return tuple(sorted(self._done.values(), key=lambda stage: stage.begun_at))

    @property
    def current(self) -> Stage | None:
        """The stage under way that began last."""
        return next(reversed(self._open), None)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans seen that a rule or a check of the platform speaks of; those of requests are none of ours."""
        return tuple(self._spans)

    def reach(self, mark: Mark, at: datetime) -> None:
        """A mark is reached once; a later time for it is ignored."""
        self.marks.setdefault(mark, at)

    def carries(self, stage: Stage, size_bytes: int | None) -> None:
        """How many bytes `stage` reads, known before it ends."""
        if size_bytes is not None:
            self._bytes[stage] = size_bytes

    def begin(self, stage: Stage, at: datetime, evidence: Evidence = "host", pid: int | None = None) -> None:
        """`stage` is under way; ignored where it already is, or was."""
        if stage not in self._open and stage not in self._done:
            self._open[stage] = _Open(at, evidence, pid)

    def end(self, stage: Stage, at: datetime) -> tuple[StageTime, ...]:
        """`stage` is over: itself, finished; nothing where it was not under way."""
        begun = self._open.pop(stage, None)
        if begun is None:
            return ()
        finished = StageTime(
            stage=stage,
            begun_at=begun.at,
            elapsed_ms=max(0.0, (at - begun.at).total_seconds() * 1000),
            evidence=begun.evidence,
            bytes=self._bytes.get(stage),
            pid=begun.pid,
        )
        self._done[stage] = finished
        return (finished,)

    def start_over(self, at: datetime) -> tuple[StageTime, ...]:
        """The engine's loader has failed: what it was seen to do is forgotten, its time is one stage up to `at`.

        Called again, the stage grows by the next engine. Bytes that a stage was said to read stay said.
        """
        begun = [found.at for stage, found in self._open.items() if stage not in _BEFORE_AN_ENGINE]
        begun += [done.begun_at for done in self.stages if done.stage not in _BEFORE_AN_ENGINE]
        self._open = {stage: found for stage, found in self._open.items() if stage in _BEFORE_AN_ENGINE}
        self._done = {stage: done for stage, done in self._done.items() if stage in _BEFORE_AN_ENGINE}
        self.marks = {mark: when for mark, when in self.marks.items() if mark <= Mark.T3}
        self._spans.clear()
        self.begin(Stage.FAILED_LOADER, min(begun, default=at))
        return self.end(Stage.FAILED_LOADER, at)

    def line(self, line: EngineLine) -> tuple[StageTime, ...]:
        """Take one log line; the stages that it ended."""
        finished: list[StageTime] = []
        for rule in self._platform.lines:
            finished += self._apply(rule, line)
        return tuple(finished)

    def _apply(self, rule: LineRule, line: EngineLine) -> list[StageTime]:
        found = rule.pattern.search(line.text)
        if found is None:
            return []
        at = line.at - _seconds(found.groupdict().get("took"))
        finished = [stage for ended in rule.ends for stage in self.end(ended, at)]
        for stage in rule.begins:
            self.begin(stage, at, "log", line.pid)
        if rule.mark is not None:
            self.reach(rule.mark, at)
        return finished

    def marker(self, marker: Marker) -> tuple[StageTime, ...]:
        """Take one marker of our own; the stages that it ended."""
        if marker.role not in _PROCESS_STAGES:
            return ()
        interpreter, imports, before, after = _PROCESS_STAGES[marker.role]
        at = datetime.fromtimestamp(marker.at, UTC)
        if marker.point == "plugin":
            finished = self.end(imports, at)
            self.begin(after, at, "marker", marker.pid)
            return finished
        finished = ()
        if marker.begun is not None:
            created = datetime.fromtimestamp(marker.begun, UTC)
            # The kernel tells it to 10 ms, rounded down: no process of ours is older than T4.
            created = max(created, self.marks.get(Mark.T4, created))
            if before is not None:
                finished += self.end(before, created)
            self.begin(interpreter, created, "marker", marker.pid)
            finished += self.end(interpreter, at)
        self.begin(imports, at, "marker", marker.pid)
        return finished

    def take_spans(self, spans: Iterable[Span]) -> tuple[StageTime, ...]:
        """Take spans, which come late and inner ones first; the stages that they finished. Fills `span_s`."""
        self._spans += [span for span in spans if span.name in self._names]
        finished = self._apply_span_rules()
        for check in self._platform.checks:
            if len(check.stages) == 1 and check.stages[0] in self._done:
                stage = self._done[check.stages[0]]
                self._done[stage.stage] = stage.model_copy(update={"span_s": span_seconds(check, self._spans)})
        return finished

    def _apply_span_rules(self) -> tuple[StageTime, ...]:
        edges = [
            (_edge(span, rule.edge), rule, span.pid)
            for rule in self._platform.spans
            for span in self._spans
            if span.name == rule.name
        ]
        finished: tuple[StageTime, ...] = ()
        for at, rule, pid in sorted(edges, key=lambda edge: edge[0]):
            for stage in rule.ends:
                finished += self.end(stage, at)
            for stage in rule.begins:
                self.begin(stage, at, "span", pid)
        return finished


def span_seconds(check: SpanCheck, spans: Iterable[Span]) -> float | None:
    """Seconds between the two edges of `check`; None while one of them is not there, or they are in disorder."""
    known = tuple(spans)
    begin, end = _find(check.begin, known), _find(check.end, known)
    if begin is None or end is None or end < begin:
        return None
    return (end - begin).total_seconds()


def attributed(stages: Iterable[StageTime], begin: datetime, end: datetime) -> float:
    """The share of [begin, end] that `stages` cover, 0–1; overlaps count once, what lies outside does not count.

    Stages 0–4 s and 3–6 s of a start of 10 s: 0.6.
    """
    whole_s = (end - begin).total_seconds()
    if whole_s <= 0:
        return 0.0
    covered_s, reached_s = 0.0, 0.0
    for stage in sorted(stages, key=lambda stage: stage.begun_at):
        begun_s = (stage.begun_at - begin).total_seconds()
        low_s, high_s = max(begun_s, reached_s), min(begun_s + stage.elapsed_ms / 1000, whole_s)
        if high_s > low_s:
            covered_s += high_s - low_s
            reached_s = high_s
    return covered_s / whole_s


def _seconds(text: str | None) -> timedelta:
    return timedelta(seconds=float(text) if text else 0.0)


def _edge(span: Span, edge: Literal["begin", "end"]) -> datetime:
    return span.begin if edge == "begin" else span.end


def _find(edge: SpanEdge, spans: tuple[Span, ...]) -> datetime | None:
    instants = [_edge(span, edge.edge) for span in spans if span.name == edge.name]
    if not instants:
        return None
    return min(instants) if edge.edge == "begin" else max(instants)
