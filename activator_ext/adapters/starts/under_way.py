"""Which part of its start a pod is in now, as far as the API server and the pod itself tell."""

from activator_ext.adapters.starts.objects import Run
from activator_ext.adapters.starts.story import PodStory, began, run_of
from runtime.contract import PodStage, Stage


def stage(story: PodStory) -> Stage | PodStage | None:
    """The part under way; None: it has been ready, it leaves, or nobody tells what its engine does."""
    pod, run = story.pod, story.current
    if story.leaving_at is not None or pod.phase in ("Failed", "Succeeded"):
        return None
    if story.scheduled_at is None:
        return PodStage.NODE_PROVISION if story.node_coming_at is not None else PodStage.SCHEDULE
    if run is not None:
        return PodStage.RESTART_WAIT if run.ended_at is not None else _of_engine(story, run)
    if any(each.ended_at is None for _, each in story.init_runs):
        return PodStage.INIT_CONTAINERS
    if story.pull is not None:
        return PodStage.CONTAINER_START
    return PodStage.IMAGE_PULL if story.pulling_at is not None else PodStage.POD_SETUP


def _of_engine(story: PodStory, run: Run) -> Stage | None:
    """What its own runtime said last, if that was in this run of its container and the start was not over."""
    last = story.posted[-1] if story.posted else None
    if last is None or last.outcome is not None or run_of(story, began(story, last)) != run.index:
        return None
    return story.posted_stage
