"""`python -m runtime.host.dedicated`, called `pilotlight-engine`: one engine in a pod of its own.

The engine answers at the pod's address itself, behind its gate; nothing stands between a client and it. This process
restarts it where that is likely to help and quicker than what the kubelet does; else it ends with the reason, and the
kubelet waits and restarts the pod's container.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from runtime.cache.faults import BundleFault
from runtime.cache.shelf import Shelf
from runtime.cache.stores.base import BadStoreUrl
from runtime.cache.trust import TrustPolicy
from runtime.contract import Failure, Stage, StageEvent, StartRecord, replica_id
from runtime.engine.fork.pool import ForkPool
from runtime.engine.launch import Launched, Launcher
from runtime.engine.marker import parse as parse_marker
from runtime.engine.spans import SpanReceiver
from runtime.engine.start import EngineDirs, EngineStart
from runtime.host.alike import spec_digest
from runtime.host.engine_options import EngineOptions, read_options
from runtime.host.replica import Replica
from runtime.host.reporter import Reporter
from runtime.host.retry import NO_FAILURES, no_fork_after, wait_s
from runtime.host.shapes import Shapes
from runtime.weights.winners import WINNERS

BEAT_S = 5.0
"""How often the file `beat` in the root is touched: a liveness probe that looks at its age asks whether this lives."""
TERMINATION_LOG = Path("/dev/termination-log")
"""What Kubernetes shows as the message of a container that ended."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class _Heard(Launcher):
    """A launcher whose engines' lines are also told on standard error, where `kubectl logs` finds them."""

    async def launch(self, *args: Any, on_line: Callable[[datetime, str], None], **options: Any) -> Launched:
        """As `Launcher.launch`."""

        def both(at: datetime, text: str) -> None:
            if parse_marker(text) is None:
                _write(2, text)
            on_line(at, text)

        # By name: a dataclass with slots is made anew, and `super()` without arguments would look at the first one.
        return await Launcher.launch(self, *args, on_line=both, **options)


class Dedicated:
    """One engine and its restarts, from `run` to its end."""

    def __init__(self, options: EngineOptions, launcher: Launcher, begun_at: datetime) -> None:
        self._options, self._launcher = options, launcher
        self._asked_at, self._why = begun_at, "its pod began"
        self._spans = SpanReceiver()
        self._shapes = Shapes(options.root, _now, adopt=options.shapes)
        self._name = f"{os.uname().nodename[:40]}-{os.getpid()}-{int(begun_at.timestamp())}"
        self._reporter = None if options.controller is None else Reporter(options.controller, self._name, say=_say)
        self._generation = 0
        self._row, self._no_fork = NO_FAILURES, None if options.fork else "it was told not to"
        self._tried_without = self._recycled = False
        self._replica: Replica | None = None
        self._signals = 0
        self._told: tuple[object, ...] = ()
        self._ready: set[str] = set()
        self._waits = ""

    async def run(self) -> int:
        """Until it is stopped (0) or no restart is likely to help (1)."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        await self._spans.start()
        beat = asyncio.create_task(self._beat())
        if self._reporter is not None:
            self._reporter.begin()
        try:
            while not self._signals:
                self._launcher.want(self._options.spec)
                failure = await self._life()
                if failure is None and self._recycled and not self._signals:
                    continue
                if failure is None or self._signals:
                    break
                again = self._again(failure)
                _say(f"the engine {_how(failure)} ({failure.cause.value}): {failure.message}")
                if again is None:
                    _bequeath(failure)
                    return 1
                _say(f"it is started again: {again}")
                self._asked_at, self._why = failure.at, again
            # Without a failure and without having been told to: a fault of ours, which must not look like success.
            return 0 if self._signals else 1
        finally:
            beat.cancel()
            if self._reporter is not None:
                await asyncio.to_thread(self._reporter.close)
            if self._launcher.forks is not None:
                await self._launcher.forks.close()
            if self._launcher.shelf is not None:
                await self._launcher.shelf.close()
            await self._spans.close()

    async def _life(self) -> Failure | None:
        """One replica from its start to its end: the failure that ended it, None: it was stopped."""
        spec, base = self._options.spec, self._options.root / self._options.spec.service / "0"
        ended: asyncio.Future[Failure | None] = asyncio.get_running_loop().create_future()
        self._generation += 1
        shaped = self._shapes.shaped(spec)
        start = EngineStart(
            spec=shaped.spec,
            start_id=f"{self._name}-{self._generation}",
            replica=replica_id(spec.service, 0),
            dirs=EngineDirs(cache=base / "cache", log=base / "engine.log", run=base / "run"),
            asked_at=self._asked_at,
            why=self._why,
            spans=self._spans,
            on_change=lambda start: self._changed(start.record, start.stage),
            on_stage=_tell_stage,
            clock=_now,
            launcher=self._launcher,
            no_fork=self._no_fork,
            recycles=not self._recycled,
            shapes=shaped.why,
        )
        self._replica = Replica(
            start=start,
            spec=shaped.spec,
            digest=spec_digest(spec),
            ordinal=0,
            clock=_now,
            on_change=lambda: None,
            on_end=lambda _, failure: ended.set_result(failure),
            let_go_s=self._options.let_go_s,
            on_steps=self._shapes.taker(spec),
        )
        self._replica.begin()
        failure = await ended
        self._recycled = start.record.outcome == "recycled"
        if self._recycled:
            self._asked_at, self._why = _now(), f"recycled: {start.record.cache.note}"
            _say(f"the engine is begun anew: {start.record.cache.note}")
        return failure

    def _again(self, failure: Failure) -> str | None:
        """Why another start is likely to go better at once, None if it is not."""
        replica = self._replica
        assert replica is not None  # noqa: S101  (its end is what is judged)
        served_s = None if replica.ready_at is None else (failure.at - replica.ready_at).total_seconds()
        self._row = self._row.after(failure, served_s)
        if failure.permanent:
            return None
        if served_s is not None:
            self._tried_without = False
            return "it had served, and may do so again" if wait_s(failure, self._row.failures) == 0.0 else None
        if self._tried_without:
            return None
        self._tried_without = True
        without = []
        if no_fork := no_fork_after(replica.record, failure, self._no_fork):
            self._no_fork = no_fork
            without += ["without a fork"] if replica.record.forked else []
        if replica.record.cache.origin is not None:
            without.append("without the compiled code, if that was to blame")
        return ", ".join(without) or None

    def _signalled(self) -> None:
        self._signals += 1
        if self._replica is None:
            return
        if self._signals == 1:
            _say(f"stopping: running answers have {self._options.spec.drain_timeout_s:.0f} s to end")
            self._replica.stop()
        elif self._replica.task is not None:
            self._replica.task.cancel()

    def _changed(self, record: StartRecord, stage: Stage | None) -> None:
        """Tell the whole record when the start is over, and when something is learned of it later."""
        if self._reporter is not None:
            self._reporter.changed(record, stage)
        if record.outcome is None:
            if record.cache.note.startswith("waiting: ") and record.cache.note != self._waits:
                self._waits = record.cache.note
                _say(f"the start is {self._waits}")
            return
        news = (record.id, record.outcome, record.cache.published, record.warmed_at, record.ended)
        if news != self._told:
            self._told = news
            _write(1, f'{{"start": {record.model_dump_json(exclude_none=True)}}}')
            if record.outcome == "ready" and record.id not in self._ready:
                self._ready.add(record.id)
                _say(f"ready after {record.ready_s:.1f} s at port {self._options.listen.port} ({_told_of(record)})")

    async def _beat(self) -> None:
        beat = self._options.root / "beat"
        while True:
            with contextlib.suppress(OSError):
                beat.touch()
            await asyncio.sleep(BEAT_S)


def _told_of(record: StartRecord) -> str:
    code = record.cache.verdict.value if record.cache.verdict else "unknown"
    return f"{record.kind.value}, compiled code {code}"


def _how(failure: Failure) -> str:
    return "has ended" if failure.cause.value in ("died-after-ready", "frozen") else "did not start"


def _tell_stage(event: StageEvent) -> None:
    _write(1, event.model_dump_json(exclude_none=True))


def _say(text: str) -> None:
    _write(2, f"pilotlight-engine: {text}")


def _write(fd: int, line: str) -> None:
    """A line, lost where nobody takes it: no start may fail because it cannot be told of."""
    with contextlib.suppress(OSError):
        os.write(fd, f"{line}\n".encode())


def _bequeath(failure: Failure) -> None:
    """Leave the reason where Kubernetes looks for it; it takes 4 KiB."""
    if TERMINATION_LOG.exists():
        with contextlib.suppress(OSError):
            TERMINATION_LOG.write_text(f"{failure.cause.value}: {failure.message}"[:4000])


def _launcher(options: EngineOptions) -> Launcher:
    if options.command is not None:  # what stands in for vLLM imports and compiles nothing
        return _Heard(options.command, listen=options.listen)
    shelf = options.root / ".shelf"
    shelf.mkdir(parents=True, exist_ok=True, mode=0o700)
    if options.signing_key is not None:
        # Of a Secret's files a group may read; a key is used only from a file that is its owner's alone.
        key = shelf / "signing-key.pem"
        key.unlink(missing_ok=True)
        with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(options.signing_key.read_bytes())
        key.with_name(key.name + ".pub").unlink(missing_ok=True)
    made = Shelf(
        shelf,
        clock=_now,
        version=version("pilotlight"),
        stores=options.stores,
        publish_to=options.publish_to,
        policy=TrustPolicy.load(options.trust) if options.trust else None,
    )
    forks, measured = ForkPool() if options.fork else None, options.root / WINNERS
    return _Heard(forks=forks, shelf=made, measured=measured, listen=options.listen)


def _lock(root: Path) -> int:
    """Nobody else uses `root` while the descriptor is open: two engines that share caches corrupt them. OSError."""
    root.mkdir(parents=True, exist_ok=True)
    lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise ValueError(f"another pilotlight-engine uses {root}: give each one a directory of its own") from error
    return lock


def main() -> None:
    """Read the command line and run the engine."""
    begun_at = datetime.fromtimestamp(psutil.Process().create_time(), UTC)
    try:
        options = read_options(sys.argv[1:], os.environ)
        lock = _lock(options.root)
        launcher = _launcher(options)
    except (ValueError, BadStoreUrl, BundleFault, OSError) as error:
        _say(f"error: {error}")
        raise SystemExit(2) from error
    if options.dropped:
        _say(f"not passed to the engine, its launcher sets or refuses them: {', '.join(options.dropped)}")
    try:
        code = asyncio.run(Dedicated(options, launcher, begun_at).run())
    finally:
        os.close(lock)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
