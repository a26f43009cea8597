"""Make an image: an engine is begun for it alone, proven, warmed, sealed and dumped. No client is ever let to it."""

import asyncio
import contextlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import psutil

from runtime.cache.shelf import Shelf
from runtime.contract import EngineSpec, StageEvent
from runtime.engine.argv import import_environment
from runtime.engine.launch import Launcher
from runtime.engine.running import RunningEngine
from runtime.engine.snapshot import system
from runtime.engine.snapshot.criu import DUMP_LOG, complaint
from runtime.engine.snapshot.hosted import Snapshots, key_of, wanted_of
from runtime.engine.snapshot.images import ImageInUseError, Place, held
from runtime.engine.snapshot.manifest import SnapshotManifest, prompt_of, secrets_of
from runtime.engine.snapshot.saved_files import save_files
from runtime.engine.start import EngineDirs, EngineStart, StartFailed
from runtime.ready.fault import Fault
from runtime.ready.gate_seal import SEAL_SOCKET

EXPIRES_S: Final = 86_400.0
"""A day: what an image knows of its machine grows old, and what nobody restores need not lie about."""
DUMP_S: Final = 300.0
QUIET_S: Final = 10.0
"""How long the host's own last connection may take to be gone."""


class NotMadeError(Exception):
    """No image came of it, and nothing of the try is left; `str()` says why and what to do."""


@dataclass(frozen=True, slots=True)
class Order:
    """One image wanted. `shelf`: where compiled code is found; `shared`: where digests of models are remembered.

    `command` replaces what begins the engine (tests).
    """

    spec: EngineSpec
    expires_s: float = EXPIRES_S
    shelf: Shelf | None = None
    shared: Path | None = None
    on_stage: Callable[[StageEvent], None] = lambda _: None
    command: tuple[str, ...] = (sys.executable, "-P", "-m", "runtime.engine.serve")


def refusal(spec: EngineSpec) -> str | None:
    """Why no image is ever made of an engine of `spec`, None if one may be. Raises ValueError on a bad environment."""
    if spec.platform != "cpu":
        return "this is for CPUs: on CUDA use `pilotlight snapshot cuda`, which drives vLLM's own snapshots"
    if secrets := secrets_of(spec, import_environment(spec, os.environ)):
        return f"an image holds all memory of its engine: remove {', '.join(secrets)} from the service first"
    if any(arg.split("=", 1)[0] == "--allowed-media-domains" for arg in spec.args):
        return "a restored engine reaches no network: it could not fetch from --allowed-media-domains"
    return None


async def create(order: Order, snapshots: Snapshots) -> SnapshotManifest:
    """Make one. Raises NotMadeError; whatever happens, no process, no mount and no half image is left."""
    try:
        if why := refusal(order.spec):
            raise NotMadeError(why)
        await asyncio.to_thread(snapshots.sweep)
        place = snapshots.images.new(snapshots.clock())
        place.make()
        with held(place, alone=True):
            try:
                return await _made(order, snapshots, place)
            except BaseException:
                shutil.rmtree(place.root, ignore_errors=True)
                raise
    except StartFailed as failed:
        tail = "".join(f"\n  {line}" for line in failed.failure.tail[-6:])
        raise NotMadeError(f"its engine did not start: {failed}{tail}") from failed
    except (Fault, OSError, ValueError, ImageInUseError, psutil.Error) as error:
        raise NotMadeError(str(error)) from error


async def _made(order: Order, snapshots: Snapshots, place: Place) -> SnapshotManifest:
    spec, clock = order.spec, snapshots.clock
    begun = clock()
    # Its engine has a /dev/shm of its own and is spawned, not forked: what a fork server did before it is not known.
    command = system.command("apart", "--", *order.command)
    start = EngineStart(
        spec=spec,
        start_id=f"image-{place.root.name}",
        replica=f"{spec.service}/0",
        dirs=EngineDirs(cache=place.cache, log=place.log, run=place.run, shared=order.shared),
        asked_at=begun,
        why="an image of it was asked for",
        spans=None,  # a connection to a receiver of spans would be in the image
        on_change=lambda _: None,
        on_stage=order.on_stage,
        clock=clock,
        launcher=Launcher(command, shelf=order.shelf, for_image=True),
    )
    try:
        engine = await start.run()
        stock_s = (clock() - begun).total_seconds()
        try:
            await engine.warm(spec)
            output, dump_s = await _dumped(engine, snapshots, place)
        finally:
            await engine.stop(0.0)
    finally:
        await start.close()
    record, now = start.record, clock()
    if record.model_digest is None or record.golden_tokens is None:
        raise NotMadeError("its weights are streamed from a URL: nothing tells whether they still are the same")
    await asyncio.to_thread(_keep_files, place)
    manifest = SnapshotManifest(
        id=place.root.name,
        made_from=wanted_of(spec),
        model_digest=record.model_digest,
        key=await asyncio.to_thread(key_of, spec),
        host=dict(snapshots.facts),
        created_at=now,
        expires_at=now + timedelta(seconds=order.expires_s),
        leader=engine.pid,
        highest_pid=_highest_pid(place.images),
        output=output,
        prompt=prompt_of(spec.golden),
        golden_tokens=record.golden_tokens,
        stock_s=round(stock_s, 3),
        dump_s=round(dump_s, 3),
        files=await asyncio.to_thread(save_files, place),
    )
    place.write(manifest)
    return manifest


async def _dumped(engine: RunningEngine, snapshots: Snapshots, place: Place) -> tuple[str, float]:
    """Seal and dump it; the pipe that its output went to, and how long the dump took. Raises Fault, NotMadeError."""
    await engine.gate.seal()
    await _quiet(engine.pid)
    output = os.readlink(f"/proc/{engine.pid}/fd/1")
    mounts = os.open(f"/proc/{engine.pid}/ns/mnt", os.O_RDONLY)
    begun = time.monotonic()
    try:
        criu = snapshots.criu.dump(engine.pid, place.images)
        told = (str(mounts), str(place.shm), str(os.getpid()), "--", *criu)
        dumper = await asyncio.create_subprocess_exec(
            *system.command("dumper", *told),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            pass_fds=(mounts,),
        )
    finally:
        os.close(mounts)
    try:
        async with asyncio.timeout(DUMP_S):
            code = await dumper.wait()
    finally:
        if dumper.returncode is None:
            dumper.kill()
            await asyncio.shield(dumper.wait())
    if code != 0:
        raise NotMadeError(f"criu could not dump the engine: {complaint(place.images / DUMP_LOG)}")
    return output, time.monotonic() - begun


async def _quiet(leader: int) -> None:
    """Wait until nobody outside has a connection to the engine: an image with half of one cannot be restored."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(QUIET_S):
            while _connected(leader):  # noqa: ASYNC110  (another process's)
                await asyncio.sleep(0.02)
            return
    raise NotMadeError("somebody stays connected to the engine: an image of it would hold half of a connection")


def _connected(leader: int) -> bool:
    """Whether a TCP connection of the tree has its other end outside of it."""
    root = psutil.Process(leader)
    ends = set()
    for process in (root, *root.children(recursive=True)):
        for one in process.net_connections(kind="tcp"):
            if one.raddr and one.status == psutil.CONN_ESTABLISHED:
                ends.add((tuple(one.laddr), tuple(one.raddr)))
    return any((theirs, ours) not in ends for ours, theirs in ends)


def _keep_files(place: Place) -> None:
    """What lay in the working directory but its sockets, which CRIU makes anew."""
    for entry in place.run.iterdir():
        if entry.is_socket():
            entry.unlink()
        else:
            entry.rename(place.start / entry.name)
    for log in (*place.images.glob("*.log"), place.start / SEAL_SOCKET):
        log.unlink(missing_ok=True)


def _highest_pid(images: Path) -> int:
    """Of all processes and threads: each has a file of its own."""
    found = (re.fullmatch(r"core-(\d+)\.img", path.name) for path in images.iterdir())
    return max(int(match[1]) for match in found if match)
