from datetime import UTC, datetime, timedelta

import pytest

from runtime.contract import Mark, Stage, StageTime
from runtime.engine.cpu import Cpu
from runtime.engine.cuda import Cuda
from runtime.engine.lines import read_line
from runtime.engine.marker import Marker
from runtime.engine.platforms import Span, SpanCheck
from runtime.engine.stages import StageTracker, attributed, span_seconds
from tests.unit.runtime.engine.recordings import add_host, replay, spans_of

T = datetime(2026, 1, 1, tzinfo=UTC)
# Between a span's edge and the log line lie the pipe and a few statements; model construction also imports kernels
# outside its span (52–85 ms on 2 cores), and a new process is forked some ms before the span of its parent says so.
TOLERANCE_S = 0.1
# The recordings are of spawned engines with a cache of their own.
NOT_THERE = {Stage.GRAPH_CAPTURE, Stage.FORK, Stage.CACHE_RESTORE, Stage.SNAPSHOT_RESTORE, Stage.FAILED_LOADER}
EVERY_STAGE_ON_CPU = [stage for stage in Stage if stage not in NOT_THERE]


def at(seconds: float) -> datetime:
    return T + timedelta(seconds=seconds)


def elapsed(tracker: StageTracker) -> dict[str, float]:
    return {stage.stage.value: round(stage.elapsed_ms / 1000, 2) for stage in tracker.stages}


@pytest.mark.parametrize("name", ["cpu_cold", "cpu_warm"])
def test_a_recorded_start_is_named_almost_whole(name: str) -> None:
    tracker = replay(name, Cpu())
    add_host(name, tracker)
    marks = tracker.marks
    assert attributed(tracker.stages, marks[Mark.T0], marks[Mark.T9]) >= 0.95
    assert sorted(stage.stage for stage in tracker.stages) == sorted(EVERY_STAGE_ON_CPU)
    assert list(dict(sorted(marks.items(), key=lambda item: item[1]))) == sorted(Mark)


@pytest.mark.parametrize("check", Cpu.checks, ids=lambda check: "+".join(check.stages))
@pytest.mark.parametrize("name", ["cpu_cold", "cpu_warm"])
def test_stages_agree_with_the_spans_of_the_engine(name: str, check: SpanCheck) -> None:
    tracker = replay(name, Cpu())
    spans = spans_of(name)
    tracker.take_spans(spans)
    times = {stage.stage: stage for stage in tracker.stages}
    ours_s = sum(times[stage].elapsed_ms for stage in check.stages) / 1000
    theirs_s = span_seconds(check, spans)
    assert theirs_s is not None
    assert ours_s == pytest.approx(theirs_s, abs=TOLERANCE_S)
    if len(check.stages) == 1:
        assert times[check.stages[0]].span_s == theirs_s


def test_the_recorded_warm_start_in_numbers() -> None:
    assert elapsed(replay("cpu_warm", Cpu())) == {
        "interpreter_api": 0.03,
        "imports_api": 6.16,
        "configuration": 0.09,
        "interpreter_core": 0.04,
        "imports_core": 4.78,
        "engine_construction": 0.02,
        "interpreter_worker": 0.05,
        "imports_worker": 4.6,
        "device_init": 0.77,
        "model_construction": 0.07,
        "weight_load": 0.0,
        "weight_convert": 0.75,
        "compile": 5.45,
        "warm_up": 0.46,
        "memory_profile": 0.0,
        "kv_cache": 2.37,
        "engine_ready": 0.35,
        "server": 0.53,
    }


def test_without_markers_imports_stay_unnamed() -> None:
    times = elapsed(replay("cpu_big_cold", Cpu()))
    assert times == {
        "device_init": 0.12,
        "model_construction": 0.25,
        "weight_load": 10.44,
        "weight_convert": 2.33,
        "compile": 51.95,
        "warm_up": 5.03,
        "memory_profile": 0.01,
        "kv_cache": 3.4,
        "engine_ready": 0.65,
        "server": 1.72,
    }


def test_an_eager_start_has_no_compile() -> None:
    tracker = replay("cpu_eager", Cpu())
    assert not {"compile", "warm_up", "memory_profile"} & set(elapsed(tracker))
    assert Mark.T6 not in tracker.marks
    assert {Mark.T5, Mark.T7} <= set(tracker.marks)


def test_lines_of_cuda() -> None:
    assert elapsed(replay("cuda_written", Cuda())) == {
        "device_init": 2.0,
        "model_construction": 1.0,
        "weight_load": 6.0,
        "weight_convert": 1.0,
        "compile": 15.0,
        "memory_profile": 3.0,
        "graph_capture": 5.0,
        "engine_ready": 1.0,
        "server": 1.0,
    }


def test_spans_of_cuda_part_kv_cache_from_warm_up() -> None:
    tracker = replay("cuda_written", Cuda())
    inner = (Span("Allocate KV cache", at(49.7), at(50.7)), Span("Capture model", at(54), at(59)))
    first = tracker.take_spans(inner)
    then = tracker.take_spans((Span("Warmup (GPU)", at(50.8), at(59.4)),))
    assert [stage.stage for stage in first + then] == [Stage.KV_CACHE, Stage.WARM_UP]
    times = {stage.stage: stage for stage in tracker.stages}
    assert times[Stage.KV_CACHE].elapsed_ms == pytest.approx(1000)
    assert times[Stage.WARM_UP].elapsed_ms == pytest.approx(3200)
    assert times[Stage.WARM_UP].evidence == "span"
    assert times[Stage.GRAPH_CAPTURE].span_s == pytest.approx(5)


def test_an_eager_cuda_start_warms_up_to_the_end_of_its_span() -> None:
    tracker = StageTracker(Cuda())
    tracker.take_spans((Span("Warmup (GPU)", at(1), at(3)),))
    assert elapsed(tracker) == {"warm_up": 2.0}


def test_a_cached_cuda_graph_begins_the_compile_where_it_was_asked_for() -> None:
    tracker = StageTracker(Cuda())
    cached = "Directly load the compiled graph(s) for compile range (1, 8) from the cache, took 2.000 s"
    tracker.line(read_line(at(12), f"[backbone] {cached}"))
    tracker.line(read_line(at(13), "torch.compile took 3.00 s in total"))
    assert elapsed(tracker) == {"compile": 3.0}


def test_a_stage_needs_a_begin_and_an_end() -> None:
    tracker = StageTracker(Cpu())
    assert tracker.line(read_line(at(1), "Loading weights took 1.00 seconds")) == ()
    assert tracker.current is Stage.WEIGHT_CONVERT
    assert tracker.stages == ()


def test_a_stage_counts_once() -> None:
    tracker = StageTracker(Cpu())
    for second in (1, 5):
        tracker.line(read_line(at(second), f"(Worker pid={second}) Initializing model took 0.1 seconds"))
        tracker.line(read_line(at(second + 1), f"(Worker pid={second}) Loading weights took 1.00 seconds"))
    (weight_load,) = tracker.stages
    assert (weight_load.begun_at, weight_load.elapsed_ms, weight_load.pid) == (at(1), 1000, 1)


def test_no_process_is_older_than_its_spawn() -> None:
    """The kernel tells a process's begin to 10 ms, rounded down."""
    tracker = StageTracker(Cpu())
    tracker.reach(Mark.T4, at(1.007))
    tracker.marker(Marker("main", "api", 7, at=at(1.1).timestamp(), begun=at(1.0).timestamp()))
    assert [stage.begun_at for stage in tracker.stages] == [at(1.007)]


def test_a_helper_process_is_no_stage() -> None:
    tracker = StageTracker(Cpu())
    tracker.marker(Marker("main", "other", 7, at=T.timestamp(), begun=T.timestamp()))
    assert (tracker.stages, tracker.current) == ((), None)


def test_without_a_process_begin_only_the_imports_are_named() -> None:
    tracker = StageTracker(Cpu())
    tracker.marker(Marker("main", "core", 7, at=T.timestamp()))
    tracker.marker(Marker("plugin", "core", 7, at=at(4).timestamp()))
    assert elapsed(tracker) == {"imports_core": 4.0}


def test_bytes_and_late_spans_reach_a_finished_stage() -> None:
    tracker = StageTracker(Cpu())
    tracker.carries(Stage.WEIGHT_LOAD, 1000)
    tracker.begin(Stage.WEIGHT_LOAD, at(0), "log")
    (done,) = tracker.end(Stage.WEIGHT_LOAD, at(2))
    assert (done.bytes, done.span_s) == (1000, None)
    tracker.take_spans((Span("Load weights", at(0.1), at(2)),))
    assert tracker.stages[0].span_s == pytest.approx(1.9)


def time_of(begin_s: float, end_s: float) -> StageTime:
    return StageTime(stage=Stage.COMPILE, begun_at=at(begin_s), elapsed_ms=(end_s - begin_s) * 1000, evidence="log")


@pytest.mark.parametrize(
    ("intervals", "share"),
    [
        pytest.param([], 0.0, id="nothing"),
        pytest.param([(0, 10)], 1.0, id="all"),
        pytest.param([(0, 4), (3, 6)], 0.6, id="overlap once"),
        pytest.param([(2, 9), (3, 4)], 0.7, id="one inside another"),
        pytest.param([(-5, 2), (8, 20)], 0.4, id="outside does not count"),
        pytest.param([(11, 12)], 0.0, id="after"),
    ],
)
def test_attributed(intervals: list[tuple[float, float]], share: float) -> None:
    assert attributed([time_of(*interval) for interval in intervals], at(0), at(10)) == pytest.approx(share)


def test_attributed_of_no_time_at_all() -> None:
    assert attributed([time_of(0, 1)], at(0), at(0)) == 0.0


def test_a_failed_loader_leaves_one_stage_and_nothing_of_its_engine() -> None:
    tracker = StageTracker(Cpu())
    begun = datetime(2026, 11, 30, tzinfo=UTC)

    def after(seconds: float) -> datetime:
        return begun + timedelta(seconds=seconds)

    tracker.begin(Stage.MODEL_CHECK, begun)
    tracker.end(Stage.MODEL_CHECK, after(1))
    tracker.reach(Mark.T3, after(1))
    for first in (1.0, 5.0):  # two engines fail, one after the other
        tracker.begin(Stage.FORK, after(first))
        tracker.end(Stage.FORK, after(first + 1))
        tracker.reach(Mark.T4, after(first + 1))
        tracker.begin(Stage.WEIGHT_LOAD, after(first + 2))
        (failed,) = tracker.start_over(after(first + 4))
        assert tracker.current is None
    assert (failed.begun_at, failed.elapsed_ms) == (after(1), 8000.0)
    assert [stage.stage for stage in tracker.stages] == [Stage.MODEL_CHECK, Stage.FAILED_LOADER]
    assert set(tracker.marks) == {Mark.T3}
    tracker.begin(Stage.FORK, after(9))
    tracker.end(Stage.FORK, after(10))
    tracker.reach(Mark.T4, after(10))
    assert tracker.marks[Mark.T4] == after(10)
    assert attributed(tracker.stages, begun, after(10)) == 1.0
