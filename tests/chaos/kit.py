"""`pilotlight up` with points to stand still at, its processes by their part, and clients that say what they heard."""

import contextlib
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import psutil

from tests.fakes.model import make_model
from tests.serving import Up, runtime, service, wait_for

HERE = Path(__file__).parent
FAKE = shlex.join((sys.executable, str(HERE / "lone_engine.py")))
Part = Literal["controller", "portal", "host", "engine"]
PARTS: tuple[Part, ...] = ("controller", "portal", "host", "engine")
_MODULES = {"controller": "activator_ext.app.cli", "portal": "activator_ext.portal", "host": "runtime.host"}


class ChaosUp(Up):
    """An `up` whose command line may be prefixed (`env`, `prlimit`), which stands still at points that are shut."""

    def __init__(self, root: Path, *, engine_command: str | None = FAKE) -> None:
        super().__init__(root, engine_command=engine_command)
        self.points = root / "points"
        self.points.mkdir()
        self.prefix: list[str] = []
        self.environment = {
            "PYTHONPATH": f"{HERE / 'points'}:{HERE.parent.parent}",
            "PILOTLIGHT_POINTS": str(self.points),
        }
        (self.files / "runtime.yaml").write_text(runtime())

    def argv(self) -> list[str]:
        """The command line, prefix and environment before it; each prefix execs, so the pid stays."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return ["env", *variables, *self.prefix, *super().argv()]

    def serve(self, name: str, *, cost: str = "600s", policy: str = "queue: {target: 100}", **ways: Any) -> None:
        """Write the files of `test/name`, its fake model with `ways`."""
        make_model(self.models / name, **ways)
        (self.files / f"{name}.yaml").write_text(service(name, cost=cost, policy=policy))

    def address(self) -> tuple[str, dict[str, str]]:
        """Where its API is, and the header that opens it."""
        url: str = json.loads((self.state / "api.json").read_text())["url"]
        return url, {"authorization": f"Bearer {(self.state / 'token').read_text().strip()}"}

    def shut(self, point: str) -> None:
        """Who comes to the point next stands still."""
        (self.points / point).touch()

    def at(self, point: str, *, within_s: float = 60) -> None:
        """Wait until somebody stands at the point."""
        wait_for((self.points / f"{point}.at").exists, within_s=within_s, saying=f"{point} is reached:\n{self.said()}")

    def open(self, point: str) -> None:
        """Let go on who stands at the point, and forget that somebody did."""
        (self.points / point).unlink(missing_ok=True)
        (self.points / f"{point}.at").unlink(missing_ok=True)

    def part(self, part: Part, name: str = "chat") -> psutil.Process:
        """The one process that plays this part; of the engines, the leader of the lowest replica of `test/name`."""
        if part == "engine":
            return self.leaders(name)[0]
        (found,) = [p for p in self.processes() if _runs(p, _MODULES[part])]
        return found

    def leaders(self, name: str = "chat") -> list[psutil.Process]:
        """The leading process of each living engine of `test/name`, by replica."""
        home = self.state / "engines" / "test" / name
        found = [(p, _cwd(p)) for p in self.engines()]
        return [p for p, cwd in sorted(found, key=lambda pair: pair[1]) if cwd.startswith(f"{home}/") and _leads(p)]

    def kill(self, part: Part, name: str = "chat") -> int:
        """`kill -9` this part; its pid. A dead controller is waited for."""
        process = self.part(part, name)
        process.kill()
        if part == "controller":
            assert self.process is not None
            assert self.process.wait(30) == -signal.SIGKILL
        return process.pid

    def never_two(self) -> None:
        """No engine ever lived beside another one of its replica."""
        found = list((self.state / "engines").glob("*/*/*/second"))
        assert not found, f"two engines of one replica at once: {found}\n{self.said()}"


def _cwd(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return process.cwd()
    return ""


def _leads(process: psutil.Process) -> bool:
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(process.pid) == process.pid
    return False


def _runs(process: psutil.Process, module: str) -> bool:
    with contextlib.suppress(psutil.Error):
        return module in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
    return False


def told(up: Up, model: str, *, stream: bool, timeout_s: float = 90) -> str:
    """What one client was told: `answered`, `error CODE`, `broken` (its own library says so), or `SILENT` and how.

    SILENT is the one that must not be: an answer that looks whole and is not.
    """
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "stream": stream}
    try:
        with httpx.stream("POST", f"http://{up.portal}/v1/chat/completions", json=body, timeout=timeout_s) as answer:
            text = answer.read().decode()
            return _meaning(answer.status_code, text, stream=stream)
    except httpx.TransportError as error:
        return f"broken {type(error).__name__}"


def _meaning(status: int, text: str, *, stream: bool) -> str:
    try:
        if status != 200:
            return f"error {status} {json.loads(text)['error']['code']}"
        if not stream:
            return "answered" if json.loads(text)["choices"][0]["finish_reason"] else "SILENT: no end"
        events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
        errors = [json.loads(event)["error"] for event in events if '"error"' in event]
        if errors:
            return f"error in stream {errors[0]['code']}"
        return "answered" if events and events[-1] == "[DONE]" else f"SILENT: ends with {events[-1:]}"
    except (ValueError, KeyError, IndexError) as error:
        return f"SILENT: {status} {text[-200:]!r} ({type(error).__name__})"


@contextmanager
def clients(up: ChaosUp, model: str, *, streams: list[bool], timeout_s: float = 90) -> Iterator[list[Future[str]]]:
    """So many clients at once, streaming or not; what each was told is there at the end of the block at the latest."""
    with ThreadPoolExecutor(len(streams)) as pool:
        try:
            yield [pool.submit(told, up, model, stream=stream, timeout_s=timeout_s) for stream in streams]
        finally:
            # Also where the block failed: clients who wait for somebody who stands still would never end.
            for point in up.points.iterdir():
                point.unlink(missing_ok=True)


def serves_again(up: ChaosUp, name: str = "chat", *, within_s: float = 90) -> float:
    """Ask until it is answered; every refusal on the way must be a clean one. Seconds that it took."""
    begun = time.monotonic()

    def answered() -> bool:
        said = told(up, name, stream=False)
        assert "SILENT" not in said, said
        return said == "answered"

    wait_for(answered, within_s=within_s, saying=f"{name} answers again:\n{up.said()}")
    return time.monotonic() - begun
