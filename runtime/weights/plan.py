"""In which order a start tries to get its weights: sources and loaders, the fastest measured first. Pure.

Each attempt is a whole way: the model's path or URL, vLLM's arguments, its environment. An attempt that failed is
followed by the next one in a fresh process; what is wrong with the model itself is not tried again by another loader.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from runtime.contract import FailureCause, Stage
from runtime.weights.loaders import BY_NAME, PEER, PLAIN, Here, Loader, streamer, why_not
from runtime.weights.memory import Memory
from runtime.weights.needs import value_of, words_of
from runtime.weights.place import Medium

Source = Literal["local", "object", "peer", "named"]
"""A directory · a bucket · a peer's GPU · what the service itself names by `--load-format`."""

NAMED = "named"
LEAST_STREAMER_BYTES = 512 * 2**20
LOCAL_STREAMER_BYTES = 4 * 2**30
"""A local disk is never ahead of the copy to the device: a few buffers are enough."""

STREAMER_SHARE = 0.5
"""Of free memory for the streamer's buffers: vLLM clones each tensor out of them, and the engine itself needs some."""

_SLOW_FILES: frozenset[Medium] = frozenset({"fuse", "network"})
_LOADING = frozenset({Stage.CONFIGURATION, Stage.MODEL_CONSTRUCTION, Stage.WEIGHT_LOAD, Stage.WEIGHT_CONVERT})
_OTHER_LOADER_MAY_HELP = frozenset(
    {
        FailureCause.EXITED,
        FailureCause.KILLED,
        FailureCause.NO_MEMORY,
        FailureCause.STUCK,
        FailureCause.START_TIMEOUT,
        FailureCause.BAD_ARGUMENTS,
    }
)
_EXTRA = "--model-loader-extra-config"
_LOADER_FLAGS = ("--load-format", _EXTRA, "--safetensors-load-strategy")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One start's question. `directory` and `url`: where the same model lies, at least one of them.

    `args` and `env` are the service's own. `local_seconds` and `url_seconds`: median seconds by loader name, as
    measured on this node for this model (`winners.py`).
    `ranks`: processes of the engine on this machine. `tensors_file`: the `.tensors` file of that layout.
    """

    here: Here
    directory: str | None
    url: str | None
    args: tuple[str, ...]
    env: Mapping[str, str]
    memory: Memory
    weight_bytes: int | None
    medium: Medium = "unknown"
    ranks: int = 1
    largest_tensor_bytes: int = 0
    tensors_file: str | None = None
    local_seconds: Mapping[str, float] = field(default_factory=dict)
    url_seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to try. `args` come after the service's own; `why` says where it stands in the order."""

    loader: str
    source: Source
    model: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    why: str
    seconds: float | None = None


def attempts(wanted: Wanted) -> tuple[Attempt, ...]:
    """All ways, best first; never empty. Raises ValueError where neither directory nor URL is given.

    What the service names itself by `--load-format` or its like stands alone: it is a decision, and files of another
    format would not load in any other way.
    """
    model = wanted.directory or wanted.url
    if model is None:
        raise ValueError("a start needs a directory or a URL to load from")
    named = _named(wanted.args)
    if named is not None:
        env = {**_named_streamer_env(wanted), **_store_env(wanted)}
        return (Attempt(NAMED, "named", model, (), env, f"the service says {named}"),)
    sources = [each for each in (_local(wanted), _remote(wanted), _peer(wanted)) if each]
    ordered = [each for source in _fastest_first(sources) for each in source]
    last = [] if any(each.loader == PLAIN.name for each in ordered) else _last(wanted)
    return (*_one_of_a_kind(ordered), *last) or (_plain(wanted, model),)


def loader_failed(cause: FailureCause, stage: Stage | None) -> bool:
    """Whether a failure in `stage` may be the loader's, so that another one may do better."""
    return cause in _OTHER_LOADER_MAY_HELP and stage in _LOADING


def next_attempt(
    plan: Sequence[Attempt], tried: Collection[str], cause: FailureCause, stage: Stage | None
) -> Attempt | None:
    """The way to try after one that failed in `stage`, or None: it was not the loader's fault, or all are used up.

    `tried` holds the `loader` names of this start so far.
    """
    if not loader_failed(cause, stage):
        return None
    left = [each for each in plan if each.loader not in tried]
    if cause is FailureCause.NO_MEMORY:  # `eager` holds whole files in memory, beside the model
        left = [each for each in left if each.loader != "eager"]
    return left[0] if left else None


def streamer_memory_bytes(wanted: Wanted, *, remote: bool, distributed: bool) -> int:
    """RUNAI_STREAMER_MEMORY_LIMIT: from the tightest cgroup and from what is read.

    No more than the weights; on a local disk no more than a few buffers. Distributed, the limit is the node's; else
    each rank has its own, so that they share. Never below the largest tensor, without which nothing moves. Where free
    memory is unknown it is the least that works, for the streamer's own default (40 GB) kills small pods.
    """
    share = LEAST_STREAMER_BYTES if wanted.memory.free_bytes is None else int(STREAMER_SHARE * wanted.memory.free_bytes)
    limit = share if remote else min(share, LOCAL_STREAMER_BYTES)
    if wanted.weight_bytes is not None:
        limit = min(limit, wanted.weight_bytes)
    if not distributed:
        limit //= max(1, wanted.ranks)
    return max(limit, wanted.largest_tensor_bytes, 1)


def tensorizer_options(path: str) -> dict[str, object]:
    """What vLLM's tensorizer loader must be told: where its one file lies."""
    return {"tensorizer_config": {"tensorizer_uri": path}}


def _named(args: tuple[str, ...]) -> str | None:
    flags = words_of(args)
    for flag in _LOADER_FLAGS:
        value = value_of(flags, flag)
        if value is not None and not (flag == "--load-format" and value == "auto"):
            return f"{flag} {value}"
    return None


def _one_of_a_kind(ordered: Iterable[Attempt]) -> Iterator[Attempt]:
    """The best of each kind: where one number of readers failed, another one is no other way."""
    seen: set[tuple[Source, str]] = set()
    for each in ordered:
        kind = (each.source, BY_NAME[each.loader].load_format)
        if kind not in seen:
            seen.add(kind)
            yield each


def _fastest_first(sources: list[list[Attempt]]) -> list[list[Attempt]]:
    """Order each source's ways, then the sources that were measured among themselves.

    One that was not measured keeps its place: a bucket does not come before a local copy that nobody has timed.
    """
    slow = float("inf")
    ways = [sorted(each, key=lambda way: slow if way.seconds is None else way.seconds) for each in sources]
    places = [place for place, each in enumerate(ways) if each[0].seconds is not None]
    best = sorted((ways[place] for place in places), key=lambda each: each[0].seconds or 0.0)
    for place, each in zip(places, best, strict=True):
        ways[place] = each
    return ways


def _last(wanted: Wanted) -> list[Attempt]:
    usable = wanted.directory is not None and why_not(PLAIN, replace(wanted.here, url=False)) is None
    return [_plain(wanted, wanted.directory)] if wanted.directory is not None and usable else []


def _local(wanted: Wanted) -> list[Attempt]:
    if wanted.directory is None:
        return []
    # What nobody measured stays as vLLM does it; where reading is slow, others follow if that fails.
    first = [PLAIN, BY_NAME["prefetch"], streamer(16)] if wanted.medium in _SLOW_FILES else [PLAIN]
    layouts = [BY_NAME["sharded_state"], BY_NAME["tensorizer"]]
    measured = [BY_NAME[name] for name in wanted.local_seconds if name in BY_NAME and name != PEER.name]
    ways = {loader.name: loader for loader in (*measured, *layouts, *first)}
    local = replace(wanted.here, url=False)
    return [_attempt(wanted, way, "local", wanted.directory) for way in ways.values() if why_not(way, local) is None]


def _remote(wanted: Wanted) -> list[Attempt]:
    if wanted.url is None:
        return []
    measured = [BY_NAME[name] for name in wanted.url_seconds if name in BY_NAME]
    ways = {loader.name: loader for loader in (*measured, BY_NAME["runai_streamer_sharded"], streamer(16))}
    remote = replace(wanted.here, url=True)
    return [_attempt(wanted, way, "object", wanted.url) for way in ways.values() if why_not(way, remote) is None]


def _peer(wanted: Wanted) -> list[Attempt]:
    usable = why_not(PEER, replace(wanted.here, url=False)) is None
    return [_attempt(wanted, PEER, "peer", wanted.directory)] if wanted.directory is not None and usable else []


def _attempt(wanted: Wanted, loader: Loader, source: Source, model: str) -> Attempt:
    seconds = (wanted.url_seconds if source == "object" else wanted.local_seconds).get(loader.name)
    options, env = _streaming(wanted, loader, source)
    # vLLM writes the options over the variables; those that the service sets itself count.
    loader = replace(loader, options={k: v for k, v in loader.options.items() if not _set(wanted, k)})
    options = {name: value for name, value in options.items() if not _set(wanted, name)}
    if loader.layout == "tensorizer" and wanted.tensors_file is not None:
        options = tensorizer_options(wanted.tensors_file)
    if source == "object":
        env = {**env, **_store_env(wanted)}
    why = f"measured {seconds:.1f} s on this node" if seconds is not None else f"not measured here: {source} in turn"
    return Attempt(loader.name, source, model, loader.args(options), env, why, seconds)


def _plain(wanted: Wanted, model: str) -> Attempt:
    return Attempt(
        PLAIN.name, "local", model, PLAIN.args(), {}, "the last resort", wanted.local_seconds.get(PLAIN.name)
    )


def _streaming(wanted: Wanted, loader: Loader, source: Source) -> tuple[dict[str, object], dict[str, str]]:
    if loader.module != "runai_model_streamer":
        return {}, {}
    # The ranks of a machine then read each byte once and pass it on; the CPU platform cannot.
    distributed = wanted.ranks > 1 and wanted.here.cuda and source == "object"
    limit = streamer_memory_bytes(wanted, remote=source == "object", distributed=distributed)
    env = {"RUNAI_STREAMER_MEMORY_LIMIT": str(limit), "RUNAI_STREAMER_LOG_TO_STDERR": "1"}
    if loader.load_format != "runai_streamer":  # the sharded loader takes no such options
        return {}, env
    return {"memory_limit": limit, **({"distributed": True} if distributed else {})}, env


def _set(wanted: Wanted, option: str) -> bool:
    """Whether the service sets an option of the streamer by its variable."""
    return f"RUNAI_STREAMER_{option.upper()}" in wanted.env


def _named_streamer_env(wanted: Wanted) -> dict[str, str]:
    """For a streamer that the service names without a memory limit: ours, for its own kills small pods."""
    words = words_of(wanted.args)
    named = (value_of(words, "--load-format") or "").startswith("runai_streamer")
    if not named or _set(wanted, "memory_limit") or "memory_limit" in (value_of(words, _EXTRA) or ""):
        return {}
    remote = wanted.directory is None
    limit = streamer_memory_bytes(wanted, remote=remote, distributed=False)
    return {"RUNAI_STREAMER_MEMORY_LIMIT": str(limit)}


def _store_env(wanted: Wanted) -> dict[str, str]:
    """What the streamer needs beside the service's own variables; those win."""
    env: dict[str, str] = {}
    if wanted.url is None:
        return env
    if endpoint := wanted.env.get("AWS_ENDPOINT_URL"):
        # vLLM passes the endpoint on only once it builds the loader: too late for config and tokenizer.
        env["RUNAI_STREAMER_S3_ENDPOINT"] = endpoint
        env["RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING"] = "0"
    if "AWS_ACCESS_KEY_ID" in wanted.env:
        env["AWS_EC2_METADATA_DISABLED"] = "true"  # else it asks the instance first, and waits where there is none
    return {name: value for name, value in env.items() if name not in wanted.env}
