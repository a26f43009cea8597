"""A real control plane to test against: the one of KUBECONFIG, or a testbed booted for this run."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOW = (
    "no control plane: set PILOTLIGHT_TESTBED to a testbed's directory (it is booted, root needed), "
    "or KUBECONFIG to any cluster with Knative Serving, KServe and KEDA"
)
"""Why a test here skips, and how it would not."""

UP_S = 180.0
"""Longest patience for a testbed to come up: 12 s are usual, 20 s beside a heavy build."""


def testbed_command() -> Path | None:
    """The testbed's command where PILOTLIGHT_TESTBED names its directory, else None."""
    command = Path(os.environ.get("PILOTLIGHT_TESTBED", "/nowhere")) / "testbed"
    return command if command.is_file() and os.geteuid() == 0 else None


@dataclass(frozen=True)
class ControlPlane:
    """One control plane and how to reach it.

    `env`: what its testbed printed (GATEWAY, ACTIVATOR, …), or our own environment. `folder`: the testbed's state
    directory if it is ours to stop parts of, else None.
    """

    kubeconfig: Path
    env: Mapping[str, str]
    folder: Path | None = field(default=None)

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """What kubectl prints; raises CalledProcessError with its words."""
        command = [*self.env.get("KUBECTL", "kubectl").split(), *args]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"{' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create or update these objects."""
        for value in objects:
            self.kubectl("apply", "-f", "-", stdin=json.dumps(value))

    def get(self, *args: str) -> Any:
        """`kubectl get ARGS -o json`, decoded, with managed fields."""
        return json.loads(self.kubectl("get", *args, "-o", "json", "--show-managed-fields"))

    def testbed(self, verb: str, *args: str) -> None:
        """`testbed stop|start|restart PART` of our own testbed."""
        command = testbed_command()
        assert command is not None, HOW
        assert self.folder is not None, "only of a testbed of our own"
        subprocess.run([command, verb, "--dir", self.folder, *args], check=True, stdout=subprocess.DEVNULL)


def given() -> ControlPlane | None:
    """The control plane of KUBECONFIG, None without one."""
    kubeconfig = os.environ.get("KUBECONFIG")
    return ControlPlane(Path(kubeconfig), dict(os.environ)) if kubeconfig else None


@contextmanager
def booted(folder: Path, *options: str) -> Iterator[ControlPlane]:
    """A testbed of our own in `folder`, taken down at the end. Fast: Knative's windows are 6 s."""
    command = testbed_command()
    assert command is not None, HOW
    up = [str(command), "up", "--dir", str(folder), "--fast", *options]
    try:
        done = subprocess.run(up, check=True, stdout=subprocess.PIPE, text=True, timeout=UP_S)
        env = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        env = {name: value.strip("'") for name, value in env.items()}
        yield ControlPlane(Path(env["KUBECONFIG"]), env, folder)
    finally:
        subprocess.run([command, "down", "--dir", folder], check=False, stdout=subprocess.DEVNULL)


def inference_service(
    namespace: str,
    name: str,
    *,
    mode: str = "Knative",
    annotations: Mapping[str, str] | None = None,
    min_replicas: int = 0,
    max_replicas: int | None = None,
    **predictor: Any,
) -> dict[str, Any]:
    """An InferenceService on the testbed's own runtime, unless `predictor` has containers; no GPU asked for."""
    if "containers" not in predictor:
        predictor["model"] = {"modelFormat": {"name": "testbed"}, "runtime": "testbed", **predictor.get("model", {})}
    if max_replicas is not None:
        predictor["maxReplicas"] = max_replicas
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"serving.kserve.io/deploymentMode": mode, **(annotations or {})},
        },
        "spec": {"predictor": {"minReplicas": min_replicas, **predictor}},
    }
