"""What the API server can answer instead of what was asked, each with its place and, where there is one, the fix."""

from typing import Any, Self

import msgspec

_FIXES = {
    401: "its credential is not taken: renew the kubeconfig, or look at the pod's service account",
    403: "grant it: the roles of manifests/ name all that is used",
    404: "it is gone, or its CRD is not installed",
    413: "the object is too large for the API server",
}


class ApiFault(Exception):
    """A request brought no answer that can be used; the message says which request, why, and what to do."""


class NoCluster(ApiFault):
    """There is no cluster to speak to: neither KUBECONFIG nor a pod's service account."""


class Unreachable(ApiFault):
    """No answer, or none that can be read; it may go by itself."""


class Silent(Unreachable):
    """Nothing comes any more on a connection that stands."""


class Refused(ApiFault):
    """The API server answered with an error. `status` ≥ 300; `reason` is its own word, such as `Conflict`."""

    def __init__(
        self, request: str, status: int, reason: str, message: str, retry_after_s: float | None = None
    ) -> None:
        self.status = status
        self.reason = reason
        self.said = message
        self.retry_after_s = retry_after_s
        fix = _FIXES.get(status)
        super().__init__(f"{request}: {status} {reason}: {message}" + (f" ({fix})" if fix else ""))

    @classmethod
    def of(cls, request: str, status: int, body: bytes, retry_after: str | None = None) -> Self:
        """From an HTTP answer; `body` is a Status object, or what a proxy in between wrote."""
        try:
            told: Any = msgspec.json.decode(body)
        except msgspec.DecodeError:
            told = None
        if not isinstance(told, dict):
            told = {"message": body[:300].decode(errors="replace").strip()}
        seconds = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
        return cls(request, status, str(told.get("reason") or "Error"), str(told.get("message") or ""), seconds)

    @property
    def gone(self) -> bool:
        """The version asked for is too old: list again."""
        return self.status == 410

    @property
    def missing(self) -> bool:
        """No such object, or no such resource at all."""
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """It changed meanwhile, or another field manager holds what was to be written."""
        return self.status == 409
