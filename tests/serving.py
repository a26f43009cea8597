"""Runs `pilotlight up` as a user would, for tests that need the whole of local mode."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil

T = TypeVar("T")

RUNTIME = """\
apiVersion: serving.kserve.io/v1alpha1
kind: ClusterServingRuntime
metadata: {name: vllm}
spec:
  supportedModelFormats: [{name: vllm, autoSelect: true}]
  containers:
  - name: kserve-container
    image: vllm/vllm-openai:v0.32.0
    args: [--model=/mnt/models, ARGS]
"""

SERVICE = """\
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: NAME, namespace: test}
spec:
  predictor:
    minReplicas: 0
    maxReplicas: 2
    model: {modelFormat: {name: vllm}, storageUri: "pvc://models/MODEL"}
---
apiVersion: pilotlight.dev/v1alpha1
kind: PrewarmPolicy
metadata: {name: NAME, namespace: test}
spec:
  serviceRef: {kind: InferenceService, name: NAME}
  coldStartCost: COST
  leadTime: {prior: 60s}
"""


def runtime(*args: str) -> str:
    """The YAML of a runtime that passes `args` to vLLM."""
    return RUNTIME.replace("ARGS", ", ".join(json.dumps(arg) for arg in args) or '"--max-num-seqs=8"')


def service(name: str, *, model: str | None = None, cost: str = "2s", policy: str = "") -> str:
    """The YAML of an InferenceService `test/name` and its policy; `policy` is appended to the policy's spec."""
    text = SERVICE.replace("NAME", name).replace("MODEL", model or name).replace("COST", cost)
    return text + "".join(f"  {line}\n" for line in policy.splitlines())


def wait_for(what: Callable[[], T | None], *, within_s: float, saying: str) -> T:
    """The first result that is neither None nor False; fails after `within_s`, naming what did not happen."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        found = what()
        if found is not None and found is not False:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {within_s:.0f} s: {saying}")


def free_port() -> int:
    """A loopback port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Up:
    """One `pilotlight up` and what a user does with it."""

    def __init__(self, root: Path, *, engine_command: str | None = None) -> None:
        self.files = root / "files"
        self.models = root / "models"
        self.state = root / "state"
        self.log = root / "up.log"
        self.files.mkdir(exist_ok=True)
        self.models.mkdir(exist_ok=True)
        self.portal = f"127.0.0.1:{free_port()}"
        self.process: subprocess.Popen[bytes] | None = None
        self._engine_command = engine_command

    def argv(self) -> list[str]:
        """The command line."""
        argv = [sys.executable, "-m", "activator_ext.app.cli", "up", str(self.files), "--state", str(self.state)]
        argv += ["--listen", self.portal, "--api-listen", "127.0.0.1:0", "--volume", f"models={self.models}"]
        argv += ["--platform", "cpu"]
        return argv + (["--engine-command", self._engine_command] if self._engine_command else [])

    def begin(self) -> None:
        """Begin and wait until it is ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.argv(), stdout=log, stderr=log, start_new_session=True)
        wait_for(self._is_ready, within_s=90, saying=f"up is ready:\n{self.said()}")

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.said()
        try:
            return json.loads((self.state / "api.json").read_text())["pid"] == self.process.pid and bool(
                self.api("GET", "/readyz").is_success
            )
        except (OSError, ValueError, httpx.HTTPError):
            return False

    def end(self, number: int = signal.SIGINT, *, within_s: float = 90) -> int:
        """Send a signal and wait for the end; its exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            left = [" ".join(process.cmdline()) for process in self.processes()]
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"up has not ended within {within_s:.0f} s; alive: {left}\n{self.said()}") from None

    def said(self) -> str:
        """All it printed so far."""
        return self.log.read_text() if self.log.exists() else ""

    def api(self, method: str, path: str, body: object = None) -> httpx.Response:
        """One call of the HTTP API."""
        url = json.loads((self.state / "api.json").read_text())["url"]
        token = (self.state / "token").read_text().strip()
        headers = {"authorization": f"Bearer {token}"}
        return httpx.request(method, url + path, json=body, headers=headers, timeout=10)

    def status(self, name: str) -> dict[str, Any]:
        """The status of `test/name`."""
        found: dict[str, Any] = self.api("GET", f"/v1/services/test/{name}").json()
        return found

    def starts(self, name: str) -> list[dict[str, Any]]:
        """The starts of `test/name`, newest first."""
        found: list[dict[str, Any]] = self.api("GET", f"/v1/services/test/{name}/starts").json()
        return found

    def events(self) -> list[str]:
        """The texts of all events."""
        return [event["text"] for event in self.api("GET", "/v1/events?limit=1000").json()]

    def ask(self, model: str, *, timeout_s: float = 120, **fields: object) -> httpx.Response:
        """A greedy completion."""
        body = {"model": model, "prompt": "one two three", "max_tokens": 8, "temperature": 0} | fields
        return httpx.post(f"http://{self.portal}/v1/completions", json=body, timeout=timeout_s)

    def wait_warmth(self, name: str, *warmth: str, within_s: float = 30) -> dict[str, Any]:
        """Wait until `test/name` is so warm; its status."""

        def reached() -> dict[str, Any] | None:
            status = self.status(name)
            return status if status["warmth"] in warmth else None

        return wait_for(reached, within_s=within_s, saying=f"{name} is {warmth}:\n{self.said()}")

    def processes(self) -> list[psutil.Process]:
        """Every living process of this state directory: up, portal, host, engines and their children."""
        return [p for p in psutil.process_iter() if _works_in(p, self.state) or _is_told(p, self.state)]

    def engines(self) -> list[psutil.Process]:
        """Every living process of an engine: they work in a directory of the state's."""
        return [p for p in psutil.process_iter() if _works_in(p, self.state)]


def _works_in(process: psutil.Process, directory: Path) -> bool:
    # Not the environment: vLLM's children write their titles over it.
    try:
        return process.cwd().startswith(str(directory))
    except psutil.Error:
        return False


def _is_told(process: psutil.Process, directory: Path) -> bool:
    try:
        return str(directory) in " ".join(process.cmdline())
    except psutil.Error:
        return False


@contextmanager
def running(up: Up) -> Iterator[Up]:
    """Begin; at the end, end it and check that no process is left."""
    up.begin()
    try:
        yield up
    finally:
        if up.process is not None and up.process.poll() is None:
            up.end()
        left = up.processes()
        for process in left:
            os.kill(process.pid, signal.SIGKILL)
        assert not left, f"left behind: {[process.name() for process in left]}\n{up.said()}"
