"""What is known of one start: evidence goes in, its record, its stage events and word of each change come out."""

from collections.abc import Callable
from datetime import datetime

from runtime.contract import Mark, Stage, StageEvent, StageTime, StartRecord, ready_seconds
from runtime.engine.lines import read_line
from runtime.engine.marker import parse as parse_marker
from runtime.engine.platforms import Platform, Span
from runtime.engine.stages import StageTracker, attributed


class Recorder:
    """One start's record as it grows. `on_change` is called after each change, `on_stage` with each finished stage."""

    def __init__(
        self,
        record: StartRecord,
        platform: Platform,
        *,
        asked_at: datetime,
        clock: Callable[[], datetime],
        on_change: Callable[[], None],
        on_stage: Callable[[StageEvent], None],
    ) -> None:
        self.record, self.clock = record, clock
        self._on_change, self._on_stage = on_change, on_stage
        self._tracker = StageTracker(platform)
        self._tracker.reach(Mark.T0, asked_at)
        self._tracker.begin(Stage.ORDER, asked_at)
        self._refresh()

    @property
    def stage(self) -> Stage | None:
        """The stage under way; None between stages and once the start is over."""
        return self._tracker.current if self.record.outcome is None else None

    @property
    def spans(self) -> tuple[Span, ...]:
        """The engine's own spans of this start so far."""
        return self._tracker.spans

    def reached(self, mark: Mark) -> datetime | None:
        """When `mark` was reached; None before it is."""
        return self._tracker.marks.get(mark)

    def reach(self, mark: Mark, at: datetime) -> None:
        """`mark` is reached; a later time for it is ignored."""
        self._tracker.reach(mark, at)

    def begin(self, stage: Stage, at: datetime) -> None:
        """`stage` is under way."""
        self._tracker.begin(stage, at)

    def end(self, stage: Stage, at: datetime) -> None:
        """`stage` is over: its event goes out."""
        self._tell(self._tracker.end(stage, at))

    def carries(self, stage: Stage, size_bytes: int | None) -> None:
        """How many bytes `stage` reads, known before it ends."""
        self._tracker.carries(stage, size_bytes)

    def line(self, at: datetime, text: str) -> frozenset[Stage]:
        """Take one line of the engine's output; the stages that it ended."""
        marker, begun = parse_marker(text), self.stage
        finished = self._tracker.marker(marker) if marker else self._tracker.line(read_line(at, text))
        self._tell(finished)
        if self.stage is not begun or finished:
            self.change()
        return frozenset(done.stage for done in finished)

    def start_over(self, at: datetime) -> None:
        """The engine's loader has failed, and another engine follows: its time is the stage `failed_loader`."""
        self._tell(self._tracker.start_over(at))
        self.change()

    def take_spans(self, spans: tuple[Span, ...]) -> None:
        """Take spans of the engine, which may come after the start is over."""
        before = self._tracker.stages
        self._tell(self._tracker.take_spans(spans))
        if self._tracker.stages != before:
            self.change()

    def seconds(self, stage: Stage) -> float | None:
        """How long a finished stage took, to the millisecond; None: it is not finished."""
        took = [done.elapsed_ms / 1000 for done in self._tracker.stages if done.stage is stage]
        return round(took[0], 3) if took else None

    def change(self, **update: object) -> None:
        """Bring the record up to date, with the fields of `update`, and tell of it."""
        self._refresh(**update)
        self._on_change()

    def _tell(self, stages: tuple[StageTime, ...]) -> None:
        for done in stages:
            self._on_stage(
                StageEvent(
                    service=self.record.service,
                    replica=self.record.replica,
                    start_id=self.record.id,
                    stage=done.stage,
                    elapsed_ms=done.elapsed_ms,
                    bytes=done.bytes,
                    at=self.clock(),
                )
            )

    def _refresh(self, **update: object) -> None:
        marks, stages = dict(sorted(self._tracker.marks.items())), self._tracker.stages
        seconds = ready_seconds(marks)
        share = attributed(stages, marks[Mark.T0], marks[Mark.T9]) if seconds is not None else None
        self.record = self.record.model_copy(
            update={"marks": marks, "stages": stages, "ready_s": seconds, "attributed": share, **update}
        )
