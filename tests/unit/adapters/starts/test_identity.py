"""Which pod a token proves, by a TokenReview as Kubernetes 1.35 answered it for a pod of Knative."""

import json
from typing import Any

import pytest

from activator_ext.adapters.starts.identity import NoPod, PodIdentity, pod_of
from runtime.host.reporter import AUDIENCE
from tests.unit.adapters.starts.replay import RECORDED


def recorded() -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((RECORDED / "token_review.json").read_text())
    return answer


def test_the_pod_that_it_is_bound_to() -> None:
    uid, name = "c4965053-ee6e-46d1-946e-cde063e86f82", "tok-predictor-00001-deployment-5cbcb8b5f8-rj86x"
    assert pod_of(recorded(), AUDIENCE) == PodIdentity("team-a", name, uid)


OTHER = '[invalid bearer token, token audiences ["x"] is invalid for the target audiences ["pilotlight-controller"]]'


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param(
            {"authenticated": False, "error": OTHER}, "does not know this token: .invalid bearer", id="unknown"
        ),
        pytest.param({"authenticated": None}, "it gives no reason", id="silent"),
        pytest.param({"audiences": ["https://kubernetes.default.svc"]}, "not for the audience", id="another's"),
        pytest.param({"audiences": None}, "not for the audience", id="an API server without audiences"),
        pytest.param({"user": {"username": "admin"}}, "of admin is bound to no pod", id="a person"),
        pytest.param(
            {"user": {"username": "system:serviceaccount:team-a:default"}}, "is bound to no pod", id="not bound"
        ),
        pytest.param({"user": None}, "token of nobody", id="nobody"),
    ],
)
def test_what_proves_no_pod(change: dict[str, Any], says: str) -> None:
    with pytest.raises(NoPod, match=says):
        pod_of(recorded() | change, AUDIENCE)


@pytest.mark.parametrize("key", ["pod-name", "pod-uid"])
@pytest.mark.parametrize("value", [[], ["a", "b"], None])
def test_half_a_binding_is_none(key: str, value: list[str] | None) -> None:
    answer = recorded()
    answer["user"]["extra"][f"authentication.kubernetes.io/{key}"] = value
    with pytest.raises(NoPod, match="bound to no pod"):
        pod_of(answer, AUDIENCE)
