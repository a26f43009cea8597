"""What an error of obstore means to a store."""

import re

from obstore.exceptions import (
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from runtime.cache.stores.base import StoreCause, StoreFault

_QUERY = re.compile(r"\?[^\s)]*")  # may carry a signature (Azure's SAS)
_STATUS = re.compile(r"status code: (\d{3})")
_NO_CREDENTIALS = ("169.254.169.254", "metadata.google.internal", "credential", "token request")
_LATE = ("timed out", "TimedOut", "deadline has elapsed")

LOGIN = "give credentials that may read (and, to publish, write) there: AWS_*, GOOGLE_*, AZURE_*, or the pod's identity"


def fault_from(error: Exception, place: str) -> StoreFault:
    """The same as a StoreFault, with the first line of what the library said, and never a signed URL."""
    text = str(error)
    said = _QUERY.sub("?…", text.splitlines()[0] if text else type(error).__name__)[:400]
    cause, fix = _meaning(error, text)
    return StoreFault(cause, place, said, fix)


def is_unsupported(error: Exception) -> bool:
    """Whether the store does not know conditional requests, rather than that a condition failed."""
    return isinstance(error, NotSupportedError | NotImplementedError) or _status(str(error)) in (405, 501)


def is_condition(error: Exception) -> bool:
    """Whether a condition of the request did not hold."""
    # 409 is S3's answer to one of two conditional puts that came at the same instant.
    return isinstance(error, PreconditionError) or _status(str(error)) in (409, 412)


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found.group(1)) if found else None


def _meaning(error: Exception, text: str) -> tuple[StoreCause, str]:
    lower = text.lower()
    status = _status(text)
    if isinstance(error, FileNotFoundError) or status == 404:
        if "NoSuchBucket" in text or "ContainerNotFound" in text:
            return StoreCause.ABSENT, "make the bucket, or correct the URL"
        return StoreCause.ABSENT, "it was deleted; ask for the newest again"
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return StoreCause.DENIED, LOGIN
    if status in (401, 403):
        return StoreCause.DENIED, LOGIN
    if status in (413, 507) or "quota" in lower:
        return StoreCause.FULL, "raise the bucket's quota, or `pilotlight cache gc` it"
    if status is None and any(sign in lower.partition("debug source")[0] for sign in _NO_CREDENTIALS):
        return StoreCause.DENIED, LOGIN
    if any(sign in text for sign in _LATE):
        return StoreCause.STALLED, "look at the endpoint and the way to it, or raise the bound"
    if "builder error" in text:
        return StoreCause.UNREACHABLE, "an endpoint without TLS needs AWS_ALLOW_HTTP=true (or GOOGLE_, AZURE_)"
    return (
        StoreCause.UNREACHABLE,
        "look at the endpoint (AWS_ENDPOINT_URL and the like), its certificate and the network",
    )
