"""The Lease as a publisher's lock, against a stand-in with the API server's rule of writing.

The same against a real API server: set PILOTLIGHT_TEST_KUBECONFIG to the kubeconfig of one for tests.
"""

import asyncio
import os
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.cache.locks_lease import LeaseLock
from runtime.cache.publisher import LockRecord, released
from runtime.cache.stores.base import StoreCause, StoreFault
from runtime.cache.stores.patience import Patience
from tests.unit.runtime.cache.stores.samples import KEY

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINE = LockRecord("me", 1, NOON, 60, NOON)
THEIRS = replace(MINE, holder="them", token=2)


class Refused(Exception):
    """As the client raises it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"({status})")
        self.status = status
        self.reason = {403: "Forbidden", 404: "Not Found", 409: "Conflict"}.get(status, "Unprocessable")


class ApiServer:
    """Leases, written only over the resourceVersion that was read; instants need their six digits."""

    def __init__(self) -> None:
        self.leases: dict[str, Any] = {}
        self._version = 0

    def read_namespaced_lease(self, name: str, namespace: str, **kwargs: object) -> Any:
        if name not in self.leases:
            raise Refused(404)
        return self.leases[name]

    def create_namespaced_lease(self, namespace: str, body: Any, **kwargs: object) -> Any:
        if body["metadata"]["name"] in self.leases:
            raise Refused(409)
        return self._keep(body)

    def replace_namespaced_lease(self, name: str, namespace: str, body: Any, **kwargs: object) -> Any:
        if name not in self.leases:
            raise Refused(404)
        if body["metadata"]["resourceVersion"] != self.leases[name].metadata.resource_version:
            raise Refused(409)
        return self._keep(body)

    def _keep(self, body: Any) -> Any:
        spec = body["spec"]
        instants = [spec[name] for name in ("renewTime", "acquireTime") if name in spec]
        if not all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", instant) for instant in instants):
            raise Refused(422)
        self._version += 1
        lease = SimpleNamespace(
            metadata=SimpleNamespace(resource_version=str(self._version)),
            spec=SimpleNamespace(
                holder_identity=spec["holderIdentity"],
                lease_duration_seconds=spec["leaseDurationSeconds"],
                renew_time=datetime.fromisoformat(spec["renewTime"]),
                acquire_time=datetime.fromisoformat(spec["acquireTime"]) if "acquireTime" in spec else None,
                lease_transitions=spec["leaseTransitions"],
            ),
        )
        self.leases[body["metadata"]["name"]] = lease
        return lease


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.prove)])
def make(request: pytest.FixtureRequest) -> Callable[[], LeaseLock]:
    """Makes one host's view of the same lock."""
    if request.param == "stand-in":
        server = ApiServer()
        return lambda: LeaseLock(server, "default", KEY)
    kubeconfig = os.environ.get("PILOTLIGHT_TEST_KUBECONFIG")
    if not kubeconfig:
        pytest.skip("no API server: set PILOTLIGHT_TEST_KUBECONFIG to the kubeconfig of one for tests")
    kubernetes = pytest.importorskip("kubernetes")
    api = kubernetes.client.CoordinationV1Api(kubernetes.config.new_client_from_config(kubeconfig))
    for lease in api.list_namespaced_lease("default", label_selector="app.kubernetes.io/managed-by=pilotlight").items:
        api.delete_namespaced_lease(lease.metadata.name, "default")
    return lambda: LeaseLock(api, "default", KEY)


async def test_it_is_written_once_then_only_over_what_was_read(make: Callable[[], LeaseLock]) -> None:
    first, second = make(), make()
    assert await first.read() is None
    assert await first.write(MINE, None)
    assert not await second.write(THEIRS, None)
    both = await first.read(), await second.read()
    assert both[0] is not None
    assert both[0].record == MINE
    renewed = replace(MINE, renewed_at=NOON.replace(microsecond=123456))
    assert await first.write(renewed, both[0])
    assert not await second.write(THEIRS, both[1])
    now = await second.read()
    assert now is not None
    assert (now.record, now.record.begun_at) == (renewed, NOON)
    assert await second.write(released(renewed, NOON), now)
    last = await first.read()
    assert last is not None
    assert last.record == released(renewed, NOON)


async def test_of_many_at_once_exactly_one_gets_through(make: Callable[[], LeaseLock]) -> None:
    hosts = [make() for _ in range(6)]
    assert sum(await asyncio.gather(*(host.write(MINE, None) for host in hosts))) == 1
    read = [await host.read() for host in hosts]
    assert sum(await asyncio.gather(*(host.write(THEIRS, read[n]) for n, host in enumerate(hosts)))) == 1


async def test_a_lease_that_was_deleted_is_not_written_over() -> None:
    server = ApiServer()
    lock = LeaseLock(server, "default", KEY)
    await lock.write(MINE, None)
    read = await lock.read()
    server.leases.clear()
    assert not await lock.write(THEIRS, read)
    assert await lock.write(THEIRS, None)


async def test_a_lease_of_somebody_else_is_read_as_far_as_it_goes() -> None:
    server = ApiServer()
    lock = LeaseLock(server, "default", KEY)
    await lock.write(MINE, None)
    for lease in server.leases.values():
        lease.spec = SimpleNamespace(
            holder_identity=None,
            lease_duration_seconds=None,
            renew_time=None,
            acquire_time=None,
            lease_transitions=None,
        )
    found = await lock.read()
    assert found is not None
    assert (found.record.holder, found.record.token) == (None, 1)


@pytest.mark.parametrize(
    ("error", "cause", "fix"),
    [
        (Refused(403), StoreCause.DENIED, "get, create and update on leases"),
        (Refused(422), StoreCause.UNREACHABLE, "look at the API server"),
        (ConnectionError("refused"), StoreCause.UNREACHABLE, "look at the API server"),
        (OSError("Read timed out."), StoreCause.STALLED, "goes on without"),
    ],
)
async def test_what_the_api_server_refuses_is_said(error: Exception, cause: StoreCause, fix: str) -> None:
    class Refusing(ApiServer):
        def read_namespaced_lease(self, name: str, namespace: str, **kwargs: object) -> Any:
            raise error

    with pytest.raises(StoreFault, match=fix) as caught:
        await LeaseLock(Refusing(), "default", KEY).read()
    assert caught.value.cause is cause
    assert "lease default/pilotlight-" in str(caught.value)


async def test_an_api_server_that_hangs_holds_nobody() -> None:
    back = threading.Event()

    class Hanging(ApiServer):
        def read_namespaced_lease(self, name: str, namespace: str, **kwargs: object) -> Any:
            back.wait()

    with pytest.raises(StoreFault) as caught:
        await LeaseLock(Hanging(), "default", KEY, patience=Patience(window_s=0.05)).read()
    back.set()
    assert caught.value.cause is StoreCause.STALLED
