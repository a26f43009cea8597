"""The runtime and its examples under a real KServe and Knative, a pod of it with real vLLM behind the real queue-proxy.

Needs the testbed (Kubernetes, Knative and KServe as plain processes): PILOTLIGHT_TESTBED names its directory. The image
is no part of it: the command of the pod runs from the Python of this machine.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.conftest import model
from tests.serving import wait_for

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "serving-runtimes"
TESTBED = Path(os.environ.get("PILOTLIGHT_TESTBED", "/nowhere")) / "testbed"

pytestmark = [
    pytest.mark.prove,
    pytest.mark.engine,
    pytest.mark.skipif(not TESTBED.is_file(), reason="no testbed: PILOTLIGHT_TESTBED names its directory"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: real pods have namespaces of their own"),
]

VOLUME = """\
apiVersion: v1
kind: ServiceAccount
metadata: {name: models-reader, namespace: team-a}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: models}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadOnlyMany]
  hostPath: {path: MODELS}
  storageClassName: ""
  claimRef: {name: models, namespace: team-a}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: models, namespace: team-a}
spec: {accessModes: [ReadOnlyMany], storageClassName: "", volumeName: models, resources: {requests: {storage: 1Gi}}}
"""

LIVE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: live
  namespace: team-a
  annotations: {serving.kserve.io/deploymentMode: Knative, autoscaling.knative.dev/target-burst-capacity: "-1"}
spec:
  predictor:
    nodeSelector: {testbed/real: "true"}
    minReplicas: 1
    timeout: 300
    model:
      modelFormat: {name: huggingface}
      runtime: pilotlight-vllm
      storageUri: pvc://models/chat
      args: [--max-model-len=2048, --max-num-seqs=8, --dtype=bfloat16]
"""


class Cluster:
    """One testbed, and commands in its namespaces."""

    def __init__(self, root: Path) -> None:
        self.root, self._dir = root, str(root / "testbed")
        model(root / "models" / "chat", 3)
        path = f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        image = {"command": ["pilotlight-engine"], "env": {"PATH": path, "PILOTLIGHT_PLATFORM": "cpu"}}
        images = root / "images.json"
        images.write_text(json.dumps({"*pilotlight-serving*": {**image, "binds": [str(root)]}}))
        options = ["--nodes", "1", "--real-nodes", "1", "--images", str(images), "--fast"]
        self._testbed("up", *options, "--no-tags-from", "pilotlight-serving")

    def _testbed(self, verb: str, *words: str) -> str:
        done = subprocess.run(
            [TESTBED, verb, "--dir", self._dir, *words], capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def sh(self, script: str) -> str:
        """Run `script` where $KUBECTL and $GATEWAY mean this cluster's."""
        return self._testbed("exec", "--", "sh", "-c", script)

    def apply(self, manifest: str) -> None:
        file = self.root / "apply.yaml"
        file.write_text(manifest)
        self.sh(f"$KUBECTL apply -f {file}")

    def get(self, words: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.sh(f"$KUBECTL get -n team-a -o json {words}"))
        return found

    def down(self) -> None:
        self._testbed("down")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("kserve"))
    try:
        made.sh(f"$KUBECTL create namespace team-a && $KUBECTL apply -f {HOME}/pilotlight-vllm.yaml")
        made.apply(VOLUME.replace("MODELS", str(made.root / "models")))
        yield made
    finally:
        made.down()


def container(deployment: str, cluster: Cluster) -> dict[str, object]:
    """The engine's container as KServe and Knative made it, once there is one."""
    script = f"$KUBECTL get -n team-a -o json deployment {deployment} --ignore-not-found"

    def made() -> dict[str, object] | None:
        text = cluster.sh(script)
        if not text:
            return None
        containers = json.loads(text)["spec"]["template"]["spec"]["containers"]
        found: dict[str, object] = next(each for each in containers if each["name"] == "kserve-container")
        return found

    return wait_for(made, within_s=60, saying=f"{deployment} is made: {cluster.sh('$KUBECTL get isvc -n team-a')}")


def test_every_example_becomes_a_deployment(cluster: Cluster) -> None:
    """KServe's and Knative's own webhooks and controllers take each of them, and fill in the names."""
    cluster.sh(f"$KUBECTL apply -f {HOME}/examples")
    ran = {
        name: container(deployment, cluster)["args"]
        for name, deployment in {
            "chat": "chat-predictor-00001-deployment",
            "chat-s3": "chat-s3-predictor-00001-deployment",
            "large": "large-predictor",
        }.items()
    }
    for name, args in ran.items():
        assert isinstance(args, list)
        assert args[:3] == ["--served-model-name", f"team-a/{name}", name]
        assert len(args) > 3
    cluster.sh(f"$KUBECTL delete -f {HOME}/examples --wait=false")


def test_a_pod_of_it_serves_and_its_last_stream_ends_whole(cluster: Cluster) -> None:
    cluster.apply(LIVE)

    def ready() -> bool:
        status = cluster.get("isvc live").get("status", {})
        assert isinstance(status, dict)
        return {"type": "Ready", "status": "True"}.items() <= _condition(status, "Ready").items()

    wait_for(ready, within_s=240, saying="the InferenceService is Ready")
    to = '-H "Host: live-predictor.team-a.example.com" -H "content-type: application/json" http://$GATEWAY'
    for name in ("live", "team-a/live"):
        body = json.dumps({"model": name, "prompt": "a", "max_tokens": 4})
        assert "completion_tokens" in cluster.sh(f"curl -sS -m 60 {to}/v1/completions -d '{body}'")
    status = cluster.sh(f"curl -sS -m 10 -o /dev/null -w '%{{http_code}}' -X POST {to}/collective_rpc")
    assert status == "403", "behind queue-proxy, too"
    long = json.dumps({"model": "live", "prompt": "a", "max_tokens": 1200, "ignore_eos": True, "stream": True})
    stream = cluster.sh(
        f"curl -sSN -m 90 {to}/v1/completions -d '{long}' & asked=$!; sleep 1;"
        " $KUBECTL delete isvc live -n team-a --wait=false >/dev/null; wait $asked"
    )
    lines = [line for line in stream.splitlines() if line]
    assert lines[-1] == "data: [DONE]"
    assert json.loads(lines[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"


def _condition(status: dict[str, object], kind: str) -> dict[str, object]:
    conditions = status.get("conditions", [])
    assert isinstance(conditions, list)
    return next((each for each in conditions if each["type"] == kind), {})
