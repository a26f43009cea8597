"""The page of stages names every part of a pod's start, in the order in which they come."""

from runtime.contract import PodStage
from scripts import pod_failures, pod_stages


def test_every_stage_is_explained() -> None:
    assert set(pod_stages.STAGES) == set(PodStage)
    section = pod_stages.section()
    assert all(f"| `{stage.value}` |" in section for stage in PodStage)


def test_every_failure_is_a_row() -> None:
    section = pod_failures.section()
    assert all(row.message.replace("|", "¦") in section for row in pod_failures.POD_ROWS)
