"""The fixtures themselves: the control plane answers and has what the other tests need."""

from typing import Any

from tests.cluster.control_plane import ControlPlane, inference_service
from tests.serving import wait_for


def test_the_control_plane_brings_an_inference_service_up(plane: ControlPlane, namespace: str) -> None:
    plane.apply(inference_service(namespace, "chat"))

    def revision() -> Any:
        status = plane.get("-n", namespace, "inferenceservice", "chat").get("status", {})
        return status.get("components", {}).get("predictor", {}).get("latestReadyRevision")

    assert wait_for(revision, within_s=60, saying="no ready Revision") == "chat-predictor-00001"
