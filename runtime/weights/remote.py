"""Whether a model in a bucket is whole: config, tokenizer, index, every shard that it names, header against size.

Costs a listing and two ranged reads for each shard, no weight is fetched; it also proves that the credentials can
read. Done in a process of its own that has the engine's environment and nothing else: the host's own keys must not
make a check pass that the engine's would fail. A digest of a remote model is not known: its objects' names, sizes and
etags stand for it.

    python -m runtime.weights.remote   the needs and the URL as JSON on stdin → the answer as JSON on stdout
"""

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

from runtime.contract import FailureCause
from runtime.ready.fault import Fault
from runtime.weights import safetensors
from runtime.weights.needs import Needs
from runtime.weights.object_store import TIMEOUT_S, Bucket, Object, StoreError
from runtime.weights.weight_files import INDEX, absent_numbers

READERS = 8
"""Headers read at the same time."""

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "tekken.json")
_MOST_JSON_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class RemoteFacts:
    """A model that is whole. `stamp` changes when an object comes, goes or is written."""

    stamp: str
    weight_bytes: int
    shards: tuple[str, ...]
    largest_tensor_bytes: int


async def check_remote(url: str, needs: Needs, env: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> RemoteFacts:
    """Look at the model at `url` as the engine with the environment `env` will.

    `timeout_s` bounds each answer of the store; the whole takes no longer than ten of them. Raises Fault
    (MODEL_MISSING, MODEL_INCOMPLETE). Cancelled, it ends the process that looks.
    """
    asked = json.dumps({"url": url, "needs": asdict(needs), "timeout_s": timeout_s}).encode()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", __spec__.name),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": os.pathsep.join(sys.path), **env},
    )
    try:
        async with asyncio.timeout(10 * timeout_s):
            out, err = await process.communicate(asked)
    except TimeoutError as error:
        raise _unreadable(url, f"{url} was not read through within {10 * timeout_s:g} s: the store is slow") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _answer(url, out, err)


def _answer(url: str, out: bytes, err: bytes) -> RemoteFacts:
    try:
        told = json.loads(out)
    except ValueError as error:
        last = err.decode(errors="replace").strip().rpartition("\n")[2]
        raise _unreadable(url, f"{url} could not be looked at: {last}") from error
    if "fault" in told:
        cause, message, numbers, permanent = told["fault"]
        raise Fault(FailureCause(cause), message, numbers, permanent=permanent)
    facts = told["facts"]
    return RemoteFacts(**{**facts, "shards": tuple(facts["shards"])})


def _main() -> None:
    asked = json.load(sys.stdin)
    needs = Needs(**{**asked["needs"], "pickle": tuple(asked["needs"]["pickle"])})
    try:
        facts = asyncio.run(look(asked["url"], needs, os.environ, asked["timeout_s"]))
    except Fault as fault:
        json.dump({"fault": [fault.cause.value, str(fault), fault.numbers, fault.permanent]}, sys.stdout)
    else:
        json.dump({"facts": asdict(facts)}, sys.stdout)


async def look(url: str, needs: Needs, env: Mapping[str, str], timeout_s: float) -> RemoteFacts:
    """What `check_remote` runs in its process. Raises Fault."""
    try:
        bucket = Bucket(url, env, timeout_s)
        objects = {each.name: each for each in await bucket.objects()}
        await _object(bucket, objects, "config.json")
        if needs.tokenizer and not any(name in objects for name in _TOKENIZERS):
            raise _incomplete(url, "tokenizer.json", "is missing and no other tokenizer is there")
        shards = await _shards(bucket, objects) if needs.weights else {}
        largest = await _check_headers(bucket, objects, shards)
    except StoreError as error:
        raise _unreadable(url, str(error)) from error
    text = "".join(f"{each.name}\0{each.size_bytes}\0{each.etag}\n" for _, each in sorted(objects.items()))
    return RemoteFacts(
        stamp=f"etags:{hashlib.sha256(text.encode()).hexdigest()}",
        weight_bytes=sum(objects[name].size_bytes for name in shards),
        shards=tuple(sorted(shards)),
        largest_tensor_bytes=largest,
    )


async def _shards(bucket: Bucket, objects: Mapping[str, Object]) -> dict[str, set[str]]:
    """Shard → the tensors that the index says it holds; without an index every safetensors object, nothing said."""
    if INDEX in objects:
        weight_map = (await _object(bucket, objects, INDEX)).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise _incomplete(bucket.url, INDEX, "has no weight_map")
        wanted: dict[str, set[str]] = {}
        for tensor, name in weight_map.items():
            if not isinstance(name, str) or name not in objects:
                raise _incomplete(bucket.url, str(name), f"is missing ({INDEX} names it)")
            wanted.setdefault(name, set()).add(tensor)
        return wanted
    found: dict[str, set[str]] = {name: set() for name in objects if name.endswith(".safetensors") and "/" not in name}
    if absent := absent_numbers(PurePosixPath(name) for name in found):
        raise _incomplete(bucket.url, absent[0], "is missing (the other shards' names count it)")
    if not found:
        raise _incomplete(bucket.url, "model.safetensors", "is missing; the streamer reads safetensors only")
    return found


async def _check_headers(bucket: Bucket, objects: Mapping[str, Object], shards: Mapping[str, set[str]]) -> int:
    gate = asyncio.Semaphore(READERS)

    async def check(name: str, wanted: set[str]) -> int:
        size = objects[name].size_bytes
        try:
            async with gate:
                prefix = await bucket.read(name, 0, min(size, safetensors.PREFIX_BYTES)) if size else b""
                length = safetensors.header_length(prefix, size)
                text = await bucket.read(name, safetensors.PREFIX_BYTES, length) if length else b""
            header = safetensors.parse_header(text, size)
        except safetensors.BadFileError as error:
            raise _incomplete(bucket.url, name, str(error)) from error
        if absent := sorted(wanted - set(header.tensors)):
            raise _incomplete(bucket.url, name, f"lacks tensor {absent[0]} ({INDEX} names it)")
        return max((tensor.size_bytes for tensor in header.tensors.values()), default=0)

    tasks = [asyncio.create_task(check(name, wanted)) for name, wanted in shards.items()]
    try:
        return max(await asyncio.gather(*tasks), default=0)
    finally:
        for task in tasks:  # the first that failed ends the others
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _object(bucket: Bucket, objects: Mapping[str, Object], name: str) -> dict[str, object]:
    if name not in objects:
        raise _incomplete(bucket.url, name, "is missing")
    if objects[name].size_bytes > _MOST_JSON_BYTES:
        raise _incomplete(bucket.url, name, f"has {objects[name].size_bytes} bytes, too many for JSON")
    try:
        value = json.loads(await bucket.read(name))
    except (ValueError, RecursionError) as error:
        raise _incomplete(bucket.url, name, f"is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise _incomplete(bucket.url, name, "is not a JSON object")
    return value


def _unreadable(url: str, message: str) -> Fault:
    return Fault(FailureCause.MODEL_MISSING, message, {"model": url})


def _incomplete(url: str, name: str, what: str) -> Fault:
    where = f"{url}/{name}"
    message = f"{where} {what}: upload the model again, whole"
    return Fault(FailureCause.MODEL_INCOMPLETE, message, {"file": where}, permanent=True)


if __name__ == "__main__":
    _main()
