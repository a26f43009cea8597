"""Records what the API server shows of starts that go well and badly: the files of tests/data/cluster (its README).

    testbed up --dir DIR --fast --nodes 1 --gpus-per-node 2 --real-nodes 1 --images DIR/images.json
    MODEL_PY=…/model.py testbed exec --dir DIR -- python -m tests.cluster.record_starts [NAME...]

Each scenario is played on real pods, and every version of every object that a watch would see is written down, without
what no reader of it needs. Run by hand when Kubernetes, Knative or KServe change; the tests replay the files.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubernetes import client, config  # type: ignore[import-untyped]  # it ships no types

HERE = Path(__file__).resolve().parents[1] / "data" / "cluster"
NAMESPACE = "team-a"
IMAGES = {
    "testbed.local/slow:*": {
        "command": ["python3", "MODEL.PY"],
        "pull_seconds": 4,
        "size_bytes": 9_000_000_000,
    },
    "kserve/storage-initializer:*": {"command": ["sh", "-c", "sleep 3"]},
}
"""What --images holds before the testbed's own: what takes its time (MODEL.PY: the testbed's model.py)."""
MIN_SCALE = "autoscaling.knative.dev/min-scale"
DEADLINE_S = 30
Json = dict[str, Any]
PATHS = {
    "Pod": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "Event": f"/api/v1/namespaces/{NAMESPACE}/events",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "ReplicaSet": f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets",
    "PodAutoscaler": f"/apis/autoscaling.internal.knative.dev/v1alpha1/namespaces/{NAMESPACE}/podautoscalers",
    "Revision": f"/apis/serving.knative.dev/v1/namespaces/{NAMESPACE}/revisions",
    "InferenceService": f"/apis/serving.kserve.io/v1beta1/namespaces/{NAMESPACE}/inferenceservices",
    "Node": "/api/v1/nodes",
}
WATCHED = [kind for kind in PATHS if kind != "ReplicaSet"]


class Api:
    """Plain JSON requests to the API server."""

    def __init__(self) -> None:
        config.load_kube_config()
        self._client = client.ApiClient()

    def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        """The answer as it stands; raises ApiException."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        answer = self._client.call_api(
            path,
            method,
            header_params=headers,
            body=body,
            response_types_map={200: "object", 201: "object", 202: "object"},
            auth_settings=["BearerToken"],
        )
        found: Json = answer[0]
        return found

    def get(self, path: str) -> Json:
        """GET."""
        return self.ask("GET", path)

    def gone(self, path: str) -> None:
        """DELETE; what is not there is gone."""
        try:
            self.ask("DELETE", path)
        except client.ApiException as error:
            if error.status != 404:
                raise


_EVENT = ("reason", "message", "type", "count", "eventTime", "firstTimestamp", "lastTimestamp", "series")
_META = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def _without(value: Json, *keys: str) -> Json:
    return {key: each for key, each in value.items() if key not in keys}


def scrubbed(kind: str, item: Json) -> Json:
    """What readers may need of an object: no addresses, no environment, no managed fields."""
    meta = {key: item["metadata"][key] for key in _META if key in item["metadata"]}
    labels = item["metadata"].get("labels") or {}
    if kept := {key: text for key, text in labels.items() if key.startswith(("serving.k", "testbed", "grown"))}:
        meta["labels"] = kept
    made: Json = {"kind": kind, "metadata": meta}
    if kind == "Event":
        about = _without(item["involvedObject"], "resourceVersion", "apiVersion")
        return {
            **made,
            **_without(item, "metadata", "involvedObject", "kind", "apiVersion", "source"),
            "involvedObject": about,
        }
    spec, status = item.get("spec") or {}, item.get("status") or {}
    if kind == "Pod":
        keep = ("name", "image", "resources")
        for part in ("containers", "initContainers"):
            if part in spec:
                made.setdefault("spec", {})[part] = [{k: c[k] for k in keep if k in c} for c in spec[part]]
        made["spec"] |= {k: spec[k] for k in ("nodeName", "nodeSelector", "restartPolicy") if k in spec}
        told = ("phase", "reason", "message", "conditions", "containerStatuses", "initContainerStatuses")
        made["status"] = {key: status[key] for key in told if key in status}
        for part in ("containerStatuses", "initContainerStatuses"):
            if part in made["status"]:
                made["status"][part] = [
                    _without(c, "resources", "allocatedResources", "containerID", "imageID") for c in status[part]
                ]
    elif kind == "Node":
        made["spec"] = {k: spec[k] for k in ("taints", "unschedulable") if k in spec}
        made["status"] = {k: status[k] for k in ("allocatable", "conditions", "images") if k in status}
        made["status"]["conditions"] = [
            _without(each, "lastHeartbeatTime") for each in status.get("conditions", []) if each["type"] == "Ready"
        ]
    else:
        made["spec"] = {
            k: spec[k] for k in ("replicas", "progressDeadlineSeconds", "reachability", "scaleTargetRef") if k in spec
        }
        made["status"] = _without(status, "actualReplicas", "containerStatuses", "initContainerStatuses", "serviceName")
    return made


class Log:
    """Every version of every object of the namespace, from `begin` to `end`, looked at five times a second."""

    def __init__(self, api: Api, name: str) -> None:
        self._api, self._name = api, name
        self._seen: dict[tuple[str, str], str] = {}
        self.lines: list[Json] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Log":
        self._look(first=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()
        HERE.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in self.lines)
        (HERE / f"{self._name}.jsonl").write_text(text)
        print(f"{self._name}: {len(self.lines)} versions, {len(text)} bytes", flush=True)

    def _run(self) -> None:
        while not self._over.wait(0.2):
            self._look()

    def _look(self, *, first: bool = False) -> None:
        at = datetime.now(UTC).isoformat()
        present = set()
        for kind in WATCHED:
            for item in self._api.get(PATHS[kind])["items"]:
                if kind == "Event" and (item["involvedObject"]["kind"] != "Pod" or item["reason"] == "Unhealthy"):
                    continue  # what no reader asks for
                key, kept = (kind, item["metadata"]["uid"]), scrubbed(kind, item)
                present.add(key)
                text = json.dumps(kept, sort_keys=True)
                if self._seen.get(key) == text:
                    continue
                self._seen[key] = text
                if first and kind in ("Event", "Pod"):
                    continue  # of an earlier scenario
                self.lines.append({"at": at, "object": kept})
        for kind, uid in [key for key in self._seen if key not in present]:
            del self._seen[kind, uid]
            self.lines.append({"at": at, "gone": {"kind": kind, "uid": uid}})


def wait(test: Callable[[], object], within_s: float, what: str) -> None:
    """Until `test` is true; what is not there yet is not true."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            if test():
                return
        except (client.ApiException, KeyError, StopIteration):
            pass
        time.sleep(0.1)
    raise SystemExit(f"never: {what}")


def container(image: str = "testbed.local/model:1", script: str | None = None, **more: Any) -> Json:
    """A container whose process listens after a second, or runs `script`."""
    made: Json = {
        "name": "kserve-container",
        "image": image,
        "env": [{"name": "START_SECONDS", "value": "1"}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        **more,
    }
    if script is not None:
        made["command"] = ["sh", "-c", script]
    return made


class Play:
    """One InferenceService and what is done to it."""

    def __init__(self, api: Api, name: str) -> None:
        self.api, self.name = api, name
        self.revision = f"{name}-predictor-00001"

    def make(self, held: Json | None, *, mode: str = "Knative", selector: Json | None = None, **predictor: Any) -> None:
        annotations = {
            "serving.kserve.io/deploymentMode": mode,
            "serving.knative.dev/progress-deadline": f"{DEADLINE_S}s",
            "autoscaling.knative.dev/target-burst-capacity": "-1",
        }
        if mode == "Standard":
            annotations = {"serving.kserve.io/deploymentMode": mode, "serving.kserve.io/autoscalerClass": "external"}
        body = {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": self.name, "namespace": NAMESPACE, "annotations": annotations},
            "spec": {
                "predictor": {
                    "minReplicas": 0,
                    "nodeSelector": {"testbed/real": "true"} if selector is None else selector,
                    **({"containers": [held]} if held is not None else {}),
                    **predictor,
                }
            },
        }
        self.api.ask("POST", PATHS["InferenceService"], body)

    def held(self, script: str, **more: Any) -> Json:
        """A container that runs `script` while the ConfigMap says fail, else the model server."""
        fail = {"name": "FAIL", "valueFrom": {"configMapKeyRef": {"name": self.name, "key": "fail", "optional": True}}}
        return container(script=f'if [ -n "$FAIL" ]; then {script}; fi; exec python3 {MODEL}', env=[fail], **more)

    def fail(self, how: str) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        body = {"metadata": {"name": self.name, "namespace": NAMESPACE}, "data": {"fail": how}}
        try:
            self.api.ask("POST", path, body)
        except client.ApiException:
            self.api.ask("PATCH", f"{path}/{self.name}", body)

    def pods(self) -> list[Json]:
        found: list[Json] = self.api.get(
            PATHS["Pod"] + f"?labelSelector=serving.kserve.io/inferenceservice%3D{self.name}"
        )["items"]
        return found

    def live(self) -> list[Json]:
        return [pod for pod in self.pods() if "deletionTimestamp" not in pod["metadata"]]

    def states(self) -> Iterator[Json]:
        for pod in self.live():
            statuses = pod["status"].get("containerStatuses", [])
            yield from (each for each in statuses if each["name"] == "kserve-container")

    def restarted(self, times: int) -> bool:
        return any(each["restartCount"] >= times for each in self.states())

    def ready_pod(self) -> bool:
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for pod in self.live()
            for condition in pod["status"].get("conditions", [])
        )

    def isvc_ready(self) -> bool:
        status = self.api.get(f"{PATHS['InferenceService']}/{self.name}").get("status", {})
        return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", []))

    def waiting(self, *reasons: str) -> bool:
        return any(each["state"].get("waiting", {}).get("reason") in reasons for each in self.states())

    def min_scale(self, number: int) -> None:
        self.api.ask(
            "PATCH", f"{PATHS['Revision']}/{self.revision}", {"metadata": {"annotations": {MIN_SCALE: str(number)}}}
        )

    def at_zero(self) -> None:
        wait(lambda: not self.pods(), 120, f"{self.name} at zero")

    def deployment(self) -> Json:
        return self.api.get(f"{PATHS['Deployment']}/{self.revision}-deployment")

    def end(self) -> None:
        self.api.gone(f"{PATHS['InferenceService']}/{self.name}")
        wait(lambda: not self.pods(), 120, f"{self.name} gone")


MODEL = os.environ.get("MODEL_PY", "")
"""Where the testbed's model.py is."""


def cold_and_cached(api: Api) -> None:
    """The image pulled; then, the node having it, a second start by min-scale, and back to zero with its 30 s drain."""
    play = Play(api, "slow")
    with Log(api, "cold_node"):
        # A tag of its own, which the node cannot have.
        play.make(container(f"testbed.local/slow:{time.time():.0f}"), containerConcurrency=4)
        wait(play.isvc_ready, 60, "ready")
        wait(play.ready_pod, 60, "a ready pod")
    play.at_zero()
    with Log(api, "cached_node"):
        play.min_scale(1)
        wait(play.ready_pod, 60, "a ready pod")
        play.min_scale(0)
        play.at_zero()
    play.end()


def crashes(api: Api) -> None:
    """A process that crashes in its Revision's first start, past the progress deadline; then in a later one."""
    play = Play(api, "crash")
    play.fail("1")
    script = 'sleep 1; echo "CUDA error: out of memory" >&2; exit 3'
    with Log(api, "crash_first"):
        play.make(play.held(script))
        wait(lambda: play.restarted(2), 90, "restarted twice")
        wait(
            lambda: any(
                c.get("reason") == "ExitCode3"
                for c in api.get(f"{PATHS['Revision']}/{play.revision}")["status"]["conditions"]
            ),
            120,
            "told",
        )
        time.sleep(1)
    play.fail("")
    wait(play.isvc_ready, 180, "healed")
    play.at_zero()
    play.fail("1")
    with Log(api, "crash_later"):
        play.min_scale(1)
        wait(lambda: play.restarted(2), 90, "restarted twice")
        time.sleep(2)
        play.min_scale(0)
        play.at_zero()
    play.end()


def dies(api: Api) -> None:
    """Ready, then killed while it serves, and ready again in its second run; the kernel's exit code for no memory."""
    play = Play(api, "dies")
    with Log(api, "died_serving"):
        play.make(container(script=f"python3 {MODEL} & sleep 8; kill -9 $!; wait $!; exit 137"), minReplicas=1)
        wait(play.ready_pod, 60, "ready")
        wait(lambda: play.restarted(1) and play.ready_pod(), 60, "ready again")
    play.end()


def pull_error(api: Api) -> None:
    """No such image."""
    play = Play(api, "nopull")
    with Log(api, "image_pull"):
        play.make(container("testbed.local/missing:1"), mode="Standard")
        wait(lambda: play.waiting("ImagePullBackOff"), 60, "back-off")
        time.sleep(1)
    play.end()


def no_gpu(api: Api) -> None:
    """More GPUs than there are: never scheduled; replaced at the progress deadline, and let go."""
    play = Play(api, "nogpu")
    many = {"limits": {"nvidia.com/gpu": "64"}, "requests": {"nvidia.com/gpu": "64"}}
    with Log(api, "unschedulable"):
        play.make(container(resources=many))
        wait(lambda: any(p["status"].get("conditions") for p in play.live()), 60, "told")
        wait(lambda: play.deployment()["spec"]["replicas"] == 0, 3 * DEADLINE_S, "given up")
        time.sleep(1)
    play.end()


def config_error(api: Api) -> None:
    """It wants a Secret that is not there."""
    play = Play(api, "nosecret")
    key = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "key"}}}
    with Log(api, "config_error"):
        play.make(container(env=[key]))
        wait(lambda: play.waiting("CreateContainerConfigError"), 60, "config error")
        time.sleep(1)
    play.end()


def probe_kills(api: Api) -> None:
    """A liveness probe that ends a start which is slower than it allows."""
    play = Play(api, "probed")
    probe = {"tcpSocket": {"port": 8080}, "initialDelaySeconds": 2, "periodSeconds": 1, "failureThreshold": 2}
    slow = [{"name": "START_SECONDS", "value": "60"}]
    with Log(api, "liveness"):
        play.make(container(env=slow, livenessProbe=probe), mode="Standard")
        wait(lambda: play.restarted(1), 60, "restarted")
        time.sleep(1)
    play.end()


def init_container(api: Api) -> None:
    """KServe's storage initializer runs first."""
    play = Play(api, "stored")
    with Log(api, "init_container"):
        model = {
            "modelFormat": {"name": "testbed"},
            "runtime": "testbed",
            "storageUri": "hf://models/chat",
        }
        play.make(None, model=model)
        wait(play.ready_pod, 60, "ready")
    play.end()


def refused(api: Api) -> None:
    """A quota that lets no pod in."""
    play = Play(api, "quota")
    path = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
    api.ask("POST", path, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    try:
        wait(lambda: "hard" in api.get(f"{path}/none").get("status", {}), 30, "a quota that counts")
        with Log(api, "refused"):
            play.make(container())
            wait(
                lambda: any(c["type"] == "ReplicaFailure" for c in play.deployment()["status"].get("conditions", [])),
                60,
                "refused",
            )
            wait(
                lambda: any(
                    c.get("status") == "False"
                    for c in api.get(f"{PATHS['Revision']}/{play.revision}")["status"]["conditions"]
                ),
                90,
                "told",
            )
            time.sleep(1)
    finally:
        api.gone(f"{path}/none")
    play.end()


def new_node(api: Api) -> None:
    """A pod that fits on no node waits for one, which appears after some seconds (a fake node, a fake pod)."""
    play = Play(api, "grown")
    api.gone("/api/v1/nodes/grown-0")
    fake = next(each for each in api.get(PATHS["Node"])["items"] if "testbed/real" not in each["metadata"]["labels"])
    try:
        with Log(api, "new_node"):
            play.make(container(), selector={"grown": "true"})
            wait(
                lambda: any(
                    c.get("reason") == "Unschedulable" for p in play.live() for c in p["status"].get("conditions", [])
                ),
                60,
                "told",
            )
            time.sleep(5)
            meta = fake["metadata"]
            labels = {**meta["labels"], "grown": "true", "kubernetes.io/hostname": "grown-0"}
            made = {"name": "grown-0", "labels": labels, "annotations": meta.get("annotations", {})}
            status = {key: fake["status"][key] for key in ("allocatable", "capacity")}
            api.ask(
                "POST",
                PATHS["Node"],
                {"metadata": made, "spec": {"taints": fake["spec"].get("taints", [])}, "status": status},
            )
            wait(play.ready_pod, 60, "ready")
    finally:
        play.end()
        api.gone("/api/v1/nodes/grown-0")


def node_lost(api: Api) -> None:
    """A node that loses its power under a pod that serves. Whoever records this stops it: `testbed stop real-0`."""
    play = Play(api, "lost")
    with Log(api, "node_lost"):
        play.make(container(), minReplicas=1)
        wait(play.ready_pod, 60, "ready")
        print("node_lost: now `testbed stop real-0`", flush=True)
        wait(lambda: not play.ready_pod(), 120, "noticed")
        time.sleep(3)


_PLAYED = (
    cold_and_cached,
    crashes,
    dies,
    pull_error,
    no_gpu,
    config_error,
    probe_kills,
    init_container,
    refused,
    new_node,
)
SCENARIOS = {each.__name__: each for each in _PLAYED}
"""Those that need nobody's hand."""
BY_HAND = {"node_lost": node_lost}


@contextmanager
def namespace(api: Api) -> Iterator[None]:
    """`NAMESPACE`, made and left as the testbed goes away with it."""
    try:
        api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    except client.ApiException as error:
        if error.status != 409:
            raise
    yield


def main() -> None:
    """Play the scenarios named, or all."""
    api = Api()
    with namespace(api):
        for name in sys.argv[1:] or SCENARIOS:
            (SCENARIOS | BY_HAND)[name](api)


if __name__ == "__main__":
    main()
