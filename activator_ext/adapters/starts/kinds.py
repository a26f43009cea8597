"""From where a pod's start began: told apart by what was seen of its node and its image, never by how long it took."""

from collections.abc import Iterable

from activator_ext.adapters.starts.objects import CUT, Node, Pod
from activator_ext.adapters.starts.story import PodStory, Pull
from runtime.contract import StartKind

RECHECK_S = 2.0
"""A pull under this is a registry's word that the node has the image already (imagePullPolicy Always), or as good."""
_SLOWEST_FIRST = (
    StartKind.NEW_NODE,
    StartKind.COLD_NODE,
    StartKind.CACHED_NODE,
    StartKind.FORK,
    StartKind.SNAPSHOT,
    StartKind.WAKE_L2,
    StartKind.WAKE_L1,
)


def of_start(story: PodStory, restart: int, told: StartKind | None) -> StartKind:
    """The kind of one start of the pod; `told`: what its own runtime says of compiled code and imports.

    A pod that waited for its node or its image did so whatever its runtime found there: the slower word counts. Where
    it waited for neither, its runtime alone knows.
    """
    seen = _of_pod(story) if restart == 0 else StartKind.CACHED_NODE
    if told is None or seen is StartKind.CACHED_NODE:
        return told or seen
    return min(seen, told, key=_SLOWEST_FIRST.index)


def _of_pod(story: PodStory) -> StartKind:
    if waited_for_node(story):
        return StartKind.NEW_NODE
    return StartKind.COLD_NODE if _counts(story.pull) else StartKind.CACHED_NODE


def waited_for_node(story: PodStory) -> bool:
    """Whether its node was made, or became Ready, only after the pod wanted one."""
    node = story.node
    if node is None:
        return story.node_coming_at is not None and story.scheduled_at is None
    wanted_at = story.pod.created_at
    if node.created_at >= wanted_at:
        return True
    # One that was there and came up late: only where the scheduler had said that it found none.
    late = node.ready_at is not None and node.ready_at >= wanted_at + CUT
    return late and story.unscheduled_since is not None


def _counts(pull: Pull | None) -> bool:
    return pull is not None and not pull.present and pull.took_s >= RECHECK_S


def of_next(nodes: Iterable[Node], pod: Pod) -> StartKind:
    """How the next start would most likely begin, by whether there is a node for it at all, and its image on it.

    `pod`: the newest one of the service, which the next will be like. What other pods have taken is not known here,
    taints and affinity are not looked at, and a kubelet lists no more than its 50 largest images; so this plans by the
    slower kind where it is not sure.
    """
    fit = [node for node in nodes if node.ready_at is not None and node.schedulable and _fits(node, pod)]
    if not fit:
        return StartKind.NEW_NODE
    return StartKind.CACHED_NODE if all(pod.engine.image in node.images for node in fit) else StartKind.COLD_NODE


def _fits(node: Node, pod: Pod) -> bool:
    chosen = all(node.labels.get(name) == value for name, value in pod.node_selector.items())
    return chosen and all(int(node.resources.get(name, "0")) >= count for name, count in pod.engine.devices.items())
