"""Whose report it is: what a TokenReview says of the token that a pod posts with. Pure.

A projected ServiceAccount token is bound to one pod, and the API server says to which; so a pod can speak of itself
alone, and nothing that it says of itself has to be believed for that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_USER = "system:serviceaccount:"
_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"


class NoPod(Exception):
    """The token proves no pod; the message says why, and what to mount instead."""


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """The pod that a token is bound to."""

    namespace: str
    name: str
    uid: str


def pod_of(status: Mapping[str, Any], audience: str) -> PodIdentity:
    """The pod by the `status` of a TokenReview that was asked for `audience`. Raises NoPod."""
    if not status.get("authenticated"):
        raise NoPod(f"the API server does not know this token: {status.get('error') or 'it gives no reason'}")
    # An API server that knows no audiences answers without any: then the token may have been meant for another.
    if audience not in (status.get("audiences") or ()):
        raise NoPod(f"this token is not for the audience {audience}: mount a projected one that is")
    user = status.get("user") or {}
    name = user.get("username") or ""
    namespace, _, account = name.removeprefix(_USER).partition(":")
    extra = user.get("extra") or {}
    pods: list[str] = extra.get(_POD_NAME) or []
    uids: list[str] = extra.get(_POD_UID) or []
    if not name.startswith(_USER) or not account or len(pods) != 1 or len(uids) != 1:
        raise NoPod(f"the token of {name or 'nobody'} is bound to no pod: mount a projected serviceAccountToken")
    return PodIdentity(namespace, pods[0], uids[0])
