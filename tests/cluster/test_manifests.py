"""`kubectl apply -k manifests/base` on a real control plane, and the controller with the rights that it grants."""

from pathlib import Path

import pytest
import yaml

from tests.cluster.control_plane import ControlPlane
from tests.cluster.test_controller import Cluster, ours
from tests.serving import wait_for

BASE = Path(__file__).parents[2] / "manifests" / "base"


@pytest.fixture
def applied(plane: ControlPlane) -> None:
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(BASE))


def credential(plane: ControlPlane, home: Path) -> Path:
    """A kubeconfig of the controller's ServiceAccount."""
    config = yaml.safe_load(Path(plane.kubeconfig).read_text())
    token = plane.kubectl("create", "token", "controller", "-n", "pilotlight").strip()
    config["users"] = [{**user, "user": {"token": token}} for user in config["users"]]
    path = home / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.usefixtures("applied")
def test_its_pods_are_admitted_and_its_rights_are_enough(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    pods = wait_for(
        lambda: len(plane.get("-n", "pilotlight", "pods")["items"]) == 2,
        within_s=60,
        saying="the Deployment has no pods: does the restricted policy refuse them?",
    )
    assert pods
    cluster = Cluster(plane, namespace, tmp_path)
    with cluster.controller("--lease=pilotlight/controller", f"--kubeconfig={credential(plane, tmp_path)}"):
        cluster.apply(ours("PrewarmPolicy", "chat", coldStartCost="10s"))
        cluster.apply(ours("PrewarmHold", "now", replicas=1, **{"for": "20s"}))
        wait_for(lambda: cluster.policy().get("warmth") == "warm", within_s=60, saying=cluster.said)
        wait_for(lambda: cluster.policy().get("floor") == 0, within_s=60, saying=cluster.said)
        cluster.nothing_of_ours()
        wait_for(lambda: cluster.events("FloorLowered") == 1, within_s=30, saying=cluster.said)
    assert "forbidden" not in cluster.said
