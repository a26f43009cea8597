"""What is read of Knative's objects, held to objects that a real Knative 1.23 with KServe 0.20 gave."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from activator_ext.adapters.knative.objects import Held, Route, Routed, replicas, routed, scaled
from activator_ext.adapters.knative.versions import scheme_of
from activator_ext.adapters.kubernetes.resource import Key
from activator_ext.core.model import ServiceId
from tests.unit.adapters.knative.world import deployment, ksvc, revision

RECORDED = Path(__file__).parents[3] / "data" / "cluster" / "knative"
A = ServiceId("team-a", "a")
R1 = Key("team-a", "a-predictor-00001")


def recorded(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return value


def test_a_service() -> None:
    assert routed(recorded("service")) == Routed(
        Key("team-a", "a-predictor"), A, R1.name, (Route(R1.name, 100, latest=True),)
    )


def test_a_revision_as_knative_made_it() -> None:
    found = scaled(recorded("revision"))
    assert found is not None
    assert (found.key, found.service, found.min_scale, found.max_scale) == (R1, A, 0, 3)
    assert (found.held, found.foreign, found.kpa, found.base) == (None, None, True, 0)
    assert found.version


def test_a_revision_that_we_hold() -> None:
    found = scaled(recorded("revision-held"))
    assert found is not None
    at = datetime.fromisoformat(recorded("revision-held")["metadata"]["managedFields"][0]["time"])
    assert found.held == Held("pilotlight/was=0", 0, at)
    assert at.tzinfo is not None
    assert (found.min_scale, found.base, found.foreign) == (1, 0, None)


def test_a_revision_that_a_user_set_after_us_is_theirs() -> None:
    found = scaled(recorded("revision-by-a-user"))
    assert found is not None
    assert (found.held, found.foreign, found.min_scale, found.base) == (None, "kubectl-annotate", 2, 2)


def test_its_pod_autoscaler_has_knatives_copy() -> None:
    found = scaled(recorded("pod-autoscaler"))
    assert found is not None
    assert (found.key, found.min_scale, found.held, found.foreign) == (R1, 1, None, None)


def test_its_deployment() -> None:
    assert replicas(recorded("deployment")) == 1
    assert replicas(deployment("r", None)) == 1
    assert replicas(deployment("r", 0)) == 0
    assert replicas({"metadata": {"labels": {"app": "other"}}, "spec": {"replicas": 3}}) is None
    assert replicas({"metadata": {}}) is None


def test_what_is_being_deleted_is_gone() -> None:
    going = {"deletionTimestamp": "2026-11-30T09:00:00Z"}
    for read, value in ((scaled, revision("r")), (routed, ksvc("r"))):
        assert read(value) is not None
        assert read({**value, "metadata": {**value["metadata"], **going}}) is None


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("12", 12), ("", None), ("-1", None), ("1.5", None), ("many", None)]
)
def test_min_scale_is_a_number_or_none(text: str, number: int | None) -> None:
    found = scaled(revision("r", min_scale=text))
    assert found is not None
    assert found.min_scale == number


def test_of_another_managers_apply_nothing_is_ours() -> None:
    found = scaled(revision("r", min_scale="1", by=("argocd-controller", "Apply"), at="never"))
    assert found is not None
    assert (found.held, found.foreign) == (None, "argocd-controller")


@pytest.mark.parametrize("entry", ["pilotlight", "pilotlight/was=0"])
def test_the_same_name_that_did_not_apply_is_not_our_record(entry: str) -> None:
    found = scaled(revision("r", min_scale="1", by=(entry, "Update")))
    assert found is not None
    assert (found.held, found.foreign) == (None, entry)


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        ({"app.kubernetes.io/version": "1.23.0"}, "revision"),
        ({"app.kubernetes.io/version": "1.21.0"}, "revision"),
        ({"app.kubernetes.io/version": "2.0"}, "revision"),
        ({"app.kubernetes.io/version": "1.20.9"}, "pod-autoscaler"),
        ({"serving.knative.dev/release": "v0.26.0"}, "pod-autoscaler"),
        ({"app.kubernetes.io/version": "devel", "serving.knative.dev/release": "v1.9.0"}, "pod-autoscaler"),
        ({"app.kubernetes.io/version": "devel"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_version_in_the_labels_of_a_crd(labels: dict[str, str] | None, scheme: str | None) -> None:
    assert scheme_of({"metadata": {"labels": labels}}) == scheme


def test_instants_are_aware() -> None:
    found = scaled(recorded("revision-held"))
    assert found is not None
    assert found.held is not None
    assert found.held.at is not None
    assert found.held.at.astimezone(UTC).year == 2026
