"""`pilotlight controller` on a real control plane: holds and schedules become pods ahead of traffic, none stays."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from activator_ext.adapters.knative.objects import MIN_SCALE
from tests.cluster.control_plane import ControlPlane
from tests.cluster.installed import installed
from tests.cluster.knative import Service
from tests.serving import wait_for

__all__ = ["installed"]

PILOTLIGHT = (sys.executable, "-m", "activator_ext.app.cli")


def ours(kind: str, name: str, **spec: Any) -> str:
    """One object of ours, about the service `chat`."""
    whole = {"serviceRef": {"kind": "InferenceService", "name": "chat"}, **spec}
    return yaml.safe_dump(
        {"apiVersion": "pilotlight.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": whole}
    )


class Cluster:
    """One namespace with the service `chat` at zero, and controllers of it."""

    def __init__(self, plane: ControlPlane, namespace: str, home: Path) -> None:
        self.plane, self.namespace, self.home = plane, namespace, home
        self.chat = Service(plane, namespace)
        self.revision = self.chat.create()
        self.chat.at_zero(self.revision)

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig)}

    def uninstall(self, *more: str) -> subprocess.CompletedProcess[str]:
        words = [*PILOTLIGHT, "uninstall", "--namespace", self.namespace, *more]
        return subprocess.run(words, env=self.env, capture_output=True, text=True, check=False, timeout=120)

    def events(self, reason: str) -> int:
        """How many Events about the policy have that reason."""
        listed = self.plane.get("-n", self.namespace, "events", f"--field-selector=reason={reason}")
        return len(listed["items"])

    def apply(self, text: str) -> None:
        self.plane.kubectl("apply", "-n", self.namespace, "-f", "-", stdin=text)

    def policy(self) -> dict[str, Any]:
        status: dict[str, Any] = self.chat.get("prewarmpolicy", "chat").get("status", {})
        return status

    @contextmanager
    def controller(self, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        """One that runs; ended in order, its last words in `said`."""
        words = [*PILOTLIGHT, "controller", "--namespace", self.namespace, "--state", str(self.home), *more]
        words += ["--activator", self.plane.env["ACTIVATOR"]] if "ACTIVATOR" in self.plane.env else []
        with (self.home / "log").open("ab") as log:
            begun = subprocess.Popen(words, env=self.env, stderr=log)
        try:
            yield begun
        finally:
            if begun.poll() is None:
                begun.send_signal(signal.SIGTERM)
            assert begun.wait(timeout=30) in (0, -signal.SIGKILL), self.said

    @property
    def said(self) -> str:
        return (self.home / "log").read_text()

    def nothing_of_ours(self) -> None:
        wait_for(lambda: self.chat.managers(self.revision) == [], within_s=30, saying="a floor was left")
        assert self.chat.min_scale(self.revision) == "0"
        assert self.chat.revisions() == [self.revision]


@pytest.fixture
def cluster(request: pytest.FixtureRequest, plane: ControlPlane, namespace: str, tmp_path: Path) -> Cluster:
    request.getfixturevalue("installed")
    return Cluster(plane, namespace, tmp_path)


def test_a_hold_brings_a_service_up_and_its_end_lets_it_go(cluster: Cluster) -> None:
    before = cluster.chat.get("inferenceservice", "chat")["metadata"]["resourceVersion"]
    with cluster.controller():
        cluster.apply(ours("PrewarmPolicy", "chat", coldStartCost="10s"))
        cluster.apply(ours("PrewarmHold", "now", replicas=1, **{"for": "20s"}))
        wait_for(lambda: cluster.policy().get("warmth") == "warm", within_s=60, saying=cluster.said)
        status = cluster.policy()
        assert (status["floor"], status["reason"]["code"], status["lastStart"]["outcome"]) == (
            1,
            "hold-active",
            "ready",
        )
        assert cluster.chat.min_scale(cluster.revision) == "1"
        wait_for(lambda: cluster.policy().get("floor") == 0, within_s=60, saying=cluster.said)
        cluster.nothing_of_ours()
    assert cluster.chat.get("inferenceservice", "chat")["metadata"]["resourceVersion"] == before
    assert "Traceback" not in cluster.said


def test_a_floor_of_a_killed_controller_is_lowered_by_the_next(cluster: Cluster) -> None:
    cluster.apply(ours("PrewarmPolicy", "chat", coldStartCost="10s"))
    with cluster.controller() as first:
        cluster.apply(ours("PrewarmHold", "now", replicas=1, **{"for": "1h"}))
        wait_for(lambda: cluster.chat.min_scale(cluster.revision) == "1", within_s=60, saying=cluster.said)
        first.kill()
        first.wait()
    cluster.plane.kubectl("delete", "-n", cluster.namespace, "prewarmhold", "now")
    assert cluster.chat.min_scale(cluster.revision) == "1"
    with cluster.controller():
        cluster.nothing_of_ours()


def test_of_two_controllers_one_acts_and_the_other_takes_over(cluster: Cluster) -> None:
    lease = f"--lease={cluster.namespace}/controller"
    cluster.apply(ours("PrewarmPolicy", "chat", coldStartCost="10s"))
    with cluster.controller(lease) as first:
        wait_for(lambda: cluster.policy().get("floor") == 0, within_s=60, saying=cluster.said)
        with cluster.controller(lease):
            first.kill()
            first.wait()
            cluster.apply(ours("PrewarmHold", "now", replicas=1, **{"for": "1h"}))
            # A lease of 15 s runs out first.
            wait_for(lambda: cluster.chat.min_scale(cluster.revision) == "1", within_s=60, saying=cluster.said)
            wait_for(lambda: cluster.events("FloorRaised") == 1, within_s=30, saying="one Event, by who leads")
    done = cluster.uninstall(lease)
    assert done.stdout.endswith("no floor of ours stays\n"), done.stderr
    assert "floors given up: 1" in done.stdout
    cluster.nothing_of_ours()


@pytest.mark.prove
def test_a_schedule_has_it_ready_by_its_minute_and_lets_it_go_after(cluster: Cluster) -> None:
    """Its lead time is the prior of two minutes, so the window is the next minute but two."""
    now = datetime.now(UTC)
    due = (now + timedelta(minutes=3)).replace(second=0, microsecond=0)
    until = due + timedelta(minutes=1)
    schedule = {
        "name": "soon",
        "timeZone": "UTC",
        "readyBy": f"{due.minute} {due.hour} * * *",
        "until": f"{until.minute} {until.hour} * * *",
        "replicas": 1,
    }
    with cluster.controller():
        cluster.apply(ours("PrewarmPolicy", "chat", coldStartCost="10s", schedules=[schedule]))
        wait_for(lambda: cluster.policy().get("nextWarmTime"), within_s=30, saying=cluster.said)
        assert cluster.chat.replicas(cluster.revision) == 0
        wait_for(lambda: cluster.policy().get("warmth") == "warm", within_s=240, saying=cluster.said)
        assert datetime.now(UTC) < due, "it was to be ready by then"
        wait_for(lambda: cluster.policy().get("floor") == 0, within_s=240, saying=cluster.said)
        assert datetime.now(UTC) >= until
        cluster.nothing_of_ours()
    assert cluster.chat.get("revision", cluster.revision)["metadata"]["annotations"][MIN_SCALE] == "0"


def test_what_cannot_be_seen_is_told_at_the_start_too(cluster: Cluster, tmp_path: Path) -> None:
    config = yaml.safe_load(Path(cluster.plane.kubeconfig).read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    nowhere = tmp_path / "nowhere"
    nowhere.write_text(yaml.safe_dump(config))
    with cluster.controller(f"--kubeconfig={nowhere}"):
        wait_for(lambda: "error: prewarmpolicies.pilotlight.dev: " in cluster.said, within_s=30, saying=cluster.said)
    assert cluster.said.count("error: prewarmpolicies.pilotlight.dev: ") == 1
