"""A publisher's lock as a Kubernetes Lease (coordination.k8s.io/v1), for stores that cannot keep one (a registry).

    Lease pilotlight-<first 40 digits of the key>    holderIdentity, leaseDurationSeconds, renewTime, leaseTransitions

Needs the package `kubernetes`, and a Role with get, create and update on leases. The API server writes only over the
resourceVersion that was read. `leaseTransitions` is the token.
"""

import importlib
import math
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NoReturn

from runtime.aside import aside
from runtime.cache.locks import Seen
from runtime.cache.publisher import LockRecord
from runtime.cache.stores.base import BadStoreUrl, StoreCause, StoreFault, proven_hex
from runtime.cache.stores.patience import FIX, Patience, bounded

LABELS = {"app.kubernetes.io/managed-by": "pilotlight"}
LOGIN = "give the pod's service account get, create and update on leases of coordination.k8s.io in that namespace"


def in_this_cluster() -> Any:
    """The API of leases as this pod, or this user's kubeconfig, reaches it. BadStoreUrl if `kubernetes` is missing."""
    try:
        kubernetes = importlib.import_module("kubernetes")
    except ImportError as error:
        raise BadStoreUrl("a Lease as lock needs the package kubernetes (>= 36.0.1, < 37); install it") from error
    try:
        kubernetes.config.load_incluster_config()
    except kubernetes.config.ConfigException:
        try:
            # Given here, because the library looks at the environment only once, when it is imported.
            kubernetes.config.load_kube_config(config_file=os.environ.get("KUBECONFIG"))
        except kubernetes.config.ConfigException as error:
            raise BadStoreUrl(f"a Lease as lock needs a cluster: {error}; run in a pod, or set KUBECONFIG") from error
    return kubernetes.client.CoordinationV1Api()


class LeaseLock:
    """The lock of `key` in `namespace`. `api`: a CoordinationV1Api; it is called in threads of ours."""

    def __init__(self, api: Any, namespace: str, key: str, *, patience: Patience | None = None) -> None:
        self._api = api
        self._namespace = namespace
        self._name = f"pilotlight-{proven_hex(key, 'the key of a lock')[:40]}"
        self._place = f"lease {namespace}/{self._name}"
        self._patience = patience or Patience()

    async def read(self) -> Seen | None:
        """See Lock."""
        found = await self._call((404,), self._api.read_namespaced_lease, self._name, self._namespace)
        if found is None:
            return None
        spec = found.spec
        record = LockRecord(
            holder=spec.holder_identity or None,
            token=max(1, spec.lease_transitions or 0),
            renewed_at=spec.renew_time or spec.acquire_time or datetime.fromtimestamp(0, UTC),
            ttl_s=float(max(1, spec.lease_duration_seconds or 0)),
            begun_at=spec.acquire_time,
        )
        return Seen(record, str(found.metadata.resource_version))

    async def write(self, record: LockRecord, over: Seen | None) -> bool:
        """See Lock. A life of less than a second is written as one."""
        body = self._body(record, over)
        if over is None:
            done = await self._call((409,), self._api.create_namespaced_lease, self._namespace, body)
        else:
            replace = self._api.replace_namespaced_lease
            done = await self._call((404, 409), replace, self._name, self._namespace, body)
        return done is not None

    def _body(self, record: LockRecord, over: Seen | None) -> dict[str, object]:
        metadata: dict[str, object] = {"name": self._name, "namespace": self._namespace, "labels": LABELS}
        if over is not None:
            metadata["resourceVersion"] = over.version
        spec: dict[str, object] = {
            "holderIdentity": record.holder or "",
            "leaseDurationSeconds": math.ceil(record.ttl_s),
            "renewTime": _instant(record.renewed_at),
            "leaseTransitions": record.token,
        }
        if record.begun_at is not None:
            spec["acquireTime"] = _instant(record.begun_at)
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    async def _call(self, expected: tuple[int, ...], call: Callable[..., Any], *args: object) -> Any | None:
        """What the call returns; None for a status of `expected`."""
        window_s = self._patience.window_s
        async with bounded(window_s, self._place, "the API server's answer"):
            try:
                return await aside(call, *args, _request_timeout=(min(5.0, window_s), window_s))
            except Exception as error:  # the client raises of several families; `_raise` tells them apart
                if getattr(error, "status", None) in expected:
                    return None
                self._raise(error)

    def _raise(self, error: Exception) -> NoReturn:
        status, said = getattr(error, "status", None), f"{type(error).__name__} {getattr(error, 'reason', error)}"
        if status in (401, 403):
            raise StoreFault(StoreCause.DENIED, self._place, said, LOGIN) from error
        if "timed out" in str(error).lower():
            raise StoreFault(StoreCause.STALLED, self._place, said, FIX) from error
        raise StoreFault(StoreCause.UNREACHABLE, self._place, said, "look at the API server and the network") from error


def _instant(at: datetime) -> str:
    """As text: the client writes a whole second without its fraction, which the API server refuses."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
