"""Before a start: what of this machine stands in the way of the weights. Pure: facts in, findings out."""

from collections.abc import Iterator
from dataclasses import dataclass

from runtime.weights.finding import Code, Finding, gib
from runtime.weights.memory import Memory
from runtime.weights.place import Place
from runtime.weights.read_ahead import FREE_SHARE

SHM_LEAST_BYTES = 256 * 2**20
"""Ranks of one engine speak through `/dev/shm`: vLLM's message queue takes 160 MiB; a container gets 64 MiB unasked."""

SHM_GOOD_BYTES = 2**30
"""NCCL's own advice for the ranks of one machine."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the machine and of the model's weights.

    `weights`: where they lie, None for a URL. `scratch`: where the engine writes what it fetches (config and tokenizer
    of a URL's model, a peer's copy). `weight_bytes` None: unknown. `on_host`: weights end in host memory (the CPU
    platform), not on an accelerator. `ranks`: processes of this engine on this machine. `held_bytes`: the least that
    the weights can take where they end, for an engine may hold them in a smaller dtype; None: as many as are stored.
    """

    weight_bytes: int | None
    memory: Memory
    weights: Place | None
    shm: Place | None
    scratch: Place | None = None
    on_host: bool = True
    ranks: int = 1
    largest_tensor_bytes: int = 0
    held_bytes: int | None = None


def findings(facts: Facts) -> tuple[Finding, ...]:
    """All that stands in the way, errors first."""
    found = [*_memory(facts), *_shm(facts), *_scratch(facts), *_place(facts)]
    return tuple(sorted(found, key=lambda each: ("error", "warning", "note").index(each.level)))


def _memory(facts: Facts) -> Iterator[Finding]:
    need, free = facts.weight_bytes, facts.memory.free_bytes
    if need is None or free is None:
        return
    by = f"the cgroup {facts.memory.limited_by}" if facts.memory.limited_by else "this machine"
    held = need if facts.held_bytes is None else facts.held_bytes
    if facts.on_host and held > free:
        yield Finding(
            Code.HOST_MEMORY,
            "error",
            f"the weights take {gib(held)}, {by} has {gib(free)} of memory left",
            "raise the memory limit, or serve a smaller or quantized model",
        )
    elif not facts.on_host and facts.largest_tensor_bytes * facts.ranks > free:
        yield Finding(
            Code.HOST_MEMORY,
            "error",
            f"a loader must hold the largest tensor ({gib(facts.largest_tensor_bytes)}) for each of {facts.ranks} "
            f"ranks in memory, {by} has {gib(free)} left",
            "raise the memory limit",
        )
    elif need > FREE_SHARE * free and facts.weights is not None:
        yield Finding(
            Code.PAGE_CACHE,
            "warning",
            f"the weights take {gib(need)} and {by} has {gib(free)} for the page cache: they are read from storage at "
            "each start, and not ahead of it",
            "raise the memory limit to the weights' size and a quarter, where starts should be fast",
        )


def _shm(facts: Facts) -> Iterator[Finding]:
    if facts.ranks < 2 or facts.shm is None:
        return
    have = facts.shm.total_bytes
    if have < SHM_GOOD_BYTES:
        least = have < SHM_LEAST_BYTES
        yield Finding(
            Code.SHARED_MEMORY,
            "error" if least else "warning",
            f"{facts.shm.path} has {gib(have)}, {facts.ranks} ranks want "
            f"{gib(SHM_LEAST_BYTES if least else SHM_GOOD_BYTES)}",
            "mount an emptyDir with medium: Memory there, or give the container --shm-size",
        )


def _scratch(facts: Facts) -> Iterator[Finding]:
    if facts.scratch is None or facts.weight_bytes is None or facts.weights is not None:
        return
    if facts.scratch.free_bytes < SHM_LEAST_BYTES:  # config, tokenizer and code of a model are a few dozen MiB
        yield Finding(
            Code.DISK_SPACE,
            "error",
            f"{facts.scratch.path} has {gib(facts.scratch.free_bytes)} left for what is fetched beside the weights",
            "free some, or point VLLM_ASSETS_CACHE at another disk",
        )


def _place(facts: Facts) -> Iterator[Finding]:
    place = facts.weights
    if place is None:
        return
    if place.medium == "fuse":
        yield Finding(
            Code.FUSE,
            "warning",
            f"{place.path} lies behind FUSE ({place.fs_type} on {place.device}): each page fault goes through a "
            "user-space process, and the page cache may not keep what was read",
            "stream from the bucket itself (--load-format runai_streamer), or keep a copy on a local disk",
        )
    elif place.medium == "network":
        yield Finding(
            Code.NETWORK_FILES,
            "note",
            f"{place.path} lies on a network file system ({place.fs_type} on {place.device})",
            "compare `prefetch` and `runai_streamer` there with `pilotlight weights bench`",
        )
    elif place.medium == "memory":
        yield Finding(
            Code.IN_MEMORY,
            "note",
            f"{place.path} lies in memory ({place.fs_type}), which counts against the memory limit",
            "subtract it from what the engine may use",
        )
    elif place.medium == "overlay" or place.on_root:
        yield Finding(
            Code.ROOT_DISK,
            "warning",
            f"{place.path} lies on the root disk ({place.fs_type} on {place.device}), which images and logs share; in "
            "a cloud it is usually the slowest disk of the machine",
            "put models on a disk of their own (local NVMe, or a volume), and measure both",
        )
    if place.numa_distance is not None and place.numa_distance > 10:
        yield Finding(
            Code.FAR_NUMA,
            "note",
            f"the storage of {place.path} is on NUMA node {place.numa_node}, at distance {place.numa_distance} from "
            "the processors that this process may use",
            "pin the engine to that node where reading is the bottleneck",
        )
