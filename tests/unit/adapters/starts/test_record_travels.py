"""A pod's record is kept, sent, counted and drawn as every other."""

from activator_ext.adapters.starts import story
from activator_ext.adapters.starts.records import Wanted, records
from activator_ext.app.cli.waterfall import waterfall
from activator_ext.app.metrics import Metrics
from runtime.contract import PodStage, PodStageTime, Stage, StageTime, StartRecord
from tests.unit.adapters.starts.build import SCHEDULED, at, condition, event, pod, posted, pulled, running, told


def record() -> StartRecord:
    seen = told(
        pod(running(20), SCHEDULED),
        event("Scheduled", "", 1.5, exact=True),
        pulled(19, "12s", "12.5s", 8_000_000_000),
        pod(running(20), SCHEDULED, condition("Ready", "True", 90)),
    )
    compiled = StageTime(stage=Stage.COMPILE, begun_at=at(30), elapsed_ms=40_000, evidence="log")
    told_by_it = posted(20.5, stages=(compiled,))
    return records(story.with_posted(seen, [told_by_it]), Wanted(written_at=at(-3)))[0]


def test_as_json_and_back() -> None:
    start = record()
    again = StartRecord.model_validate_json(start.model_dump_json())
    assert again == start
    assert {type(stage) for stage in again.stages} == {StageTime, PodStageTime}


def test_drawn_with_its_pull() -> None:
    drawn = waterfall(record(), at(200), width=100)
    lines = {line.split()[0]: line for line in drawn.splitlines() if line.strip()}
    assert "12.50" in lines[PodStage.IMAGE_PULL]
    assert "40.00" in lines[Stage.COMPILE]


def test_counted_by_stage() -> None:
    metrics = Metrics("0")
    metrics.observe_start(record())
    assert 'stage="image_pull"' in metrics.exposition(None)
