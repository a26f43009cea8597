"""`pilotlight controller` in Standard mode: a hold goes through KEDA to the Deployment; uninstalling leaves nothing."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_plane import ControlPlane, inference_service
from tests.cluster.installed import installed
from tests.cluster.standard_rig import EXTERNAL
from tests.cluster.test_controller import PILOTLIGHT, ours
from tests.serving import wait_for

__all__ = ["installed"]


class Cluster:
    """One namespace with the service `chat` in Standard mode, and a controller of it."""

    def __init__(self, plane: ControlPlane, namespace: str, home: Path) -> None:
        self.plane, self.namespace, self._home = plane, namespace, home
        plane.apply(inference_service(namespace, "chat", mode="Standard", annotations=EXTERNAL, max_replicas=3))

    def pilotlight(self, *words: str, **options: Any) -> "subprocess.Popen[bytes]":
        env = {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig)}
        return subprocess.Popen([*PILOTLIGHT, *words, "--namespace", self.namespace], env=env, **options)

    @contextmanager
    def controller(self) -> Iterator[None]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        where = ("--keda-listen", address, "--scaler-address", address)
        with (self._home / "log").open("ab") as log:
            begun = self.pilotlight("controller", "--state", str(self._home), *where, stderr=log)
        try:
            yield
        finally:
            begun.send_signal(signal.SIGTERM)
            assert begun.wait(timeout=30) == 0, self.said

    @property
    def said(self) -> str:
        return (self._home / "log").read_text()

    def apply(self, text: str) -> None:
        self.plane.kubectl("apply", "-n", self.namespace, "-f", "-", stdin=text)

    def replicas(self) -> int:
        found = self.plane.get("deployments", "-n", self.namespace)["items"]
        return int(found[0]["spec"]["replicas"]) if found else -1


@pytest.fixture
def cluster(request: pytest.FixtureRequest, plane: ControlPlane, namespace: str, tmp_path: Path) -> Cluster:
    if not plane.env.get("KEDA_METRICS", "").startswith("http://127.0.0.1"):
        pytest.skip("KEDA must reach this machine's loopback: set PILOTLIGHT_TESTBED to a testbed's directory")
    request.getfixturevalue("installed")
    return Cluster(plane, namespace, tmp_path)


def test_a_hold_goes_through_keda_and_uninstalling_leaves_nothing(cluster: Cluster) -> None:
    with cluster.controller():
        cluster.apply(ours("PrewarmPolicy", "chat", coldStartCost="5s"))
        wait_for(lambda: cluster.replicas() == 0, within_s=90, saying=cluster.said)
        cluster.apply(ours("PrewarmHold", "now", replicas=1, **{"for": "10s"}))
        wait_for(lambda: cluster.replicas() == 1, within_s=60, saying=cluster.said)
        wait_for(lambda: cluster.replicas() == 0, within_s=90, saying=cluster.said)
    assert "Traceback" not in cluster.said

    scaled_objects = cluster.plane.get("scaledobjects", "-n", cluster.namespace)["items"]
    assert [each["metadata"]["name"] for each in scaled_objects] == ["chat-prewarm"]
    assert cluster.pilotlight("uninstall", stdout=subprocess.DEVNULL).wait(timeout=60) == 0
    wait_for(
        lambda: not cluster.plane.get("scaledobjects,hpa", "-n", cluster.namespace)["items"],
        within_s=60,
        saying="a ScaledObject or its HPA was left",
    )
