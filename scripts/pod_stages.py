"""The stages of a pod's start before its engine's: the second table of the page of stages."""

from collections.abc import Mapping

from runtime.contract import PodStage

STAGES: Mapping[PodStage, tuple[str, str]] = {
    PodStage.POD_CREATE: ("from wanting the replica to its pod", "our write or the first waiting request → creation"),
    PodStage.NODE_PROVISION: ("no node had room, and one is made", "creation → the node that took it is Ready"),
    PodStage.SCHEDULE: ("the scheduler finds a node", "creation, or the new node Ready → Event Scheduled"),
    PodStage.POD_SETUP: ("sandbox, network, volumes", "Scheduled → the first pull, or the first container"),
    PodStage.INIT_CONTAINERS: (
        "what runs before the engine, as KServe's storage initializer",
        "their terminated states",
    ),
    PodStage.IMAGE_PULL: (
        "the engine's image, its wait for other pulls included",
        "Event Pulled, with seconds and bytes",
    ),
    PodStage.CONTAINER_START: ("the container is made and its process begun", "Pulled → running.startedAt"),
    PodStage.RESTART_WAIT: ("a container that ended is started again", "finishedAt of the run before → startedAt"),
}


def section() -> str:
    """The part of the page."""
    rows = [("stage", "what happens", "from → to"), ("---", "---", "---")]
    rows += [(f"`{stage.value}`", what, evidence) for stage, (what, evidence) in STAGES.items()]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return (
        "## In a cluster, before the engine's own\n\nTold by the API server, mostly in whole seconds that were cut and "
        "not rounded; so a stage under a second may be missing, and its neighbour be longer by it.\n\n" + table
    )
