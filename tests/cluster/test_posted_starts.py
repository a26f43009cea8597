"""A real pod's own process tells of its start, by the pod's own token: from a Knative pod to one whole record.

The process is `pilotlight-engine` with the fake engine; queue-proxy, token, TokenReview, Events and states are real.
"""

import ctypes
import http.server
import json
import os
import shlex
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from activator_ext.adapters.starts.identity import PodIdentity, pod_of
from activator_ext.adapters.starts.records import Wanted
from runtime.contract import Mark, PodReport, PodStage, Stage, StageTime
from runtime.host.reporter import AUDIENCE, PATH
from tests.cluster import control_plane
from tests.cluster.control_plane import HOW, ControlPlane, booted
from tests.cluster.test_starts import Looker
from tests.fakes.model import fake_command, make_model
from tests.serving import wait_for

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.prove


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A testbed with one real node, whose network this thread, and all that it starts, is in."""
    if control_plane.testbed_command() is None:
        pytest.skip(HOW)
    make_model(tmp_path / "model", start_s=1.0)
    engine = [sys.executable, "-P", "-m", "runtime.host.dedicated"]
    image = {"command": engine, "env": {"PYTHONPATH": str(ROOT)}, "binds": [str(tmp_path)], "pull_seconds": 3}
    (tmp_path / "images.json").write_text(json.dumps({"testbed.local/engine:*": image | {"size_bytes": 7_000_000}}))
    libc = ctypes.CDLL(None, use_errno=True)
    options = ("--nodes", "0", "--real-nodes", "1", "--images", str(tmp_path / "images.json"))
    with Path("/proc/self/ns/net").open() as here, booted(tmp_path / "bed", *options) as made:
        with Path(made.env["NETNS"]).open() as there:
            assert libc.setns(there.fileno(), 0) == 0
        try:
            yield made
        finally:
            libc.setns(here.fileno(), 0)


class Receiver:
    """The controller's end in a few lines: asks the API server whose token it is, and keeps what it says."""

    def __init__(self, plane: ControlPlane, address: str, folder: Path) -> None:
        self.heard: list[tuple[PodIdentity, PodReport]] = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                token = self.headers["Authorization"].removeprefix("Bearer ")
                review = {"token": token, "audiences": [AUDIENCE]}
                asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": review}
                answer = json.loads(plane.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(asked)))
                who = pod_of(answer["status"], AUDIENCE)
                assert self.path == PATH
                receiver.heard.append((who, PodReport.model_validate_json(body)))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Silent."""

        made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=controller"
        files = ["-addext", f"subjectAltName=IP:{address}", "-keyout", "key.pem", "-out", "ca.crt"]
        subprocess.run([*made.split(), *files], cwd=folder, check=True, capture_output=True)
        self.ca = (folder / "ca.crt").read_text()
        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "ca.crt", folder / "key.pem")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://{address}:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def service(namespace: str, url: str, folder: Path) -> dict[str, Any]:
    token = {"serviceAccountToken": {"path": "token", "audience": AUDIENCE, "expirationSeconds": 3600}}
    ca = {"configMap": {"name": "pilotlight-controller-ca", "optional": True}}
    ours = ["--root", "/scratch", "--let-go-s", "0.1", "--engine-command", shlex.join(fake_command())]
    container = {
        "name": "kserve-container",
        "image": "testbed.local/engine:1",
        "args": [*ours, "--", "--model", str(folder / "model"), "--served-model-name", f"{namespace}/chat", "chat"],
        "env": [{"name": "PILOTLIGHT_CONTROLLER_URL", "value": url}, {"name": "PILOTLIGHT_PLATFORM", "value": "cpu"}],
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/pilotlight/ready", "port": 8080}, "periodSeconds": 1},
        "volumeMounts": [
            {"name": "token", "mountPath": "/var/run/secrets/pilotlight", "readOnly": True},
            {"name": "scratch", "mountPath": "/scratch"},
        ],
    }
    predictor = {
        "minReplicas": 1,
        "nodeSelector": {"testbed/real": "true"},
        "containers": [container],
        "volumes": [{"name": "token", "projected": {"sources": [token, ca]}}, {"name": "scratch", "emptyDir": {}}],
    }
    meta = {"name": "chat", "namespace": namespace, "annotations": {"serving.kserve.io/deploymentMode": "Knative"}}
    kind = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService"}
    return {**kind, "metadata": meta, "spec": {"predictor": predictor}}


def test_one_record_of_what_the_api_server_and_the_pod_tell(
    plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = "team-a"
    addresses = plane.get("node", "real-0")["status"]["addresses"]
    receiver = Receiver(plane, next(each["address"] for each in addresses if each["type"] == "InternalIP"), tmp_path)
    plane.kubectl("create", "namespace", namespace)
    plane.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "pilotlight-controller-ca", "namespace": namespace},
            "data": {"ca.crt": receiver.ca},
        }
    )
    watched = Looker(plane, namespace, "chat")
    asked_at = datetime.now(UTC)
    watched.stories.wanted(watched.service, Wanted(written_at=asked_at, why="a test"))
    plane.apply(service(namespace, receiver.url, tmp_path))
    watched.until(lambda seen: bool(seen.starts), "a pod")
    wait_for(
        lambda: any(report.starts[-1].outcome == "ready" for _, report in receiver.heard) or None,
        within_s=90,
        saying=f"told ready: {os.listdir(tmp_path)} {receiver.heard[-1:]}",
    )
    for who, report in list(receiver.heard):
        assert who.namespace == namespace
        watched.stories.posted(who.uid, report.starts, report.stage)
    seen = watched.until(lambda seen: bool(seen.starts[0].pod and seen.starts[0].pod.ready_at), "Ready")
    (start,) = seen.starts
    assert start.pod is not None
    assert {who.uid for who, _ in receiver.heard} == {start.pod.uid}
    assert start.outcome == "ready"
    assert (start.marks[Mark.T0], start.kind.value) == (asked_at, "cold-node")
    assert list(start.marks) == list(Mark), "every mark, T0 to T9"
    assert sorted(start.marks.values()) == list(start.marks.values())
    told = {stage.stage for stage in start.stages}
    assert {PodStage.SCHEDULE, PodStage.IMAGE_PULL, Stage.MODEL_CHECK, Stage.GOLDEN_PROMPT} <= told
    assert (start.pod.image_bytes, start.pod.skew_s) == (7_000_000, None)
    engine = sum(stage.elapsed_ms for stage in start.stages if isinstance(stage, StageTime))
    with capsys.disabled():
        marks = ", ".join(f"{mark} {(at - asked_at).total_seconds():.2f}" for mark, at in start.marks.items())
        ready = (start.pod.ready_at - asked_at).total_seconds() if start.pod.ready_at else None
        print(f"\n{len(receiver.heard)} reports; seconds after our write: {marks}; Kubernetes Ready {ready}")
        print(f"named {start.attributed:.0%} of {start.ready_s:.2f} s, {engine / 1000:.2f} s by the engine's stages")
