"""Which of several controllers acts: the holder of a Lease (coordination.k8s.io/v1), as Kubernetes' own controllers do.

No two clocks are compared: a follower takes a lease over when it has seen it unchanged for the lease's own duration by
the follower's clock, and a leader stops leading sooner after its last renewal than any follower can take over.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.faults import ApiFault, Refused
from activator_ext.adapters.kubernetes.resource import LEASES, Json, Key

RELEASE_S = 3.0
"""How long giving the lease up may take while we end; then it runs out by itself."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds, as Kubernetes' controllers have them. `lead_s` < `lease_s` is what keeps two from leading.

    `lease_s`: how long others leave an unrenewed lease alone. `lead_s`: how long after asking for its last renewal a
    leader acts. `renew_s`: between renewals. `retry_s`: between looks of a follower, and tries after a fault.
    """

    lease_s: int = 15
    lead_s: float = 10.0
    renew_s: float = 4.0
    retry_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Lead:
    """Who leads, as last seen; `holder` "": nobody."""

    holder: str
    transitions: int


def boot_time_s() -> float:
    """A clock that never steps, and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


async def anyone_leads(client: Client, key: Key, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> bool:
    """Whether somebody keeps the lease at `key`: seen by whether it is renewed within its own duration, 15 s.

    For who acts only where no leader lives. Raises Refused, Unreachable.
    """
    path = LEASES.path(key.namespace, key.name)
    try:
        first = await client.get(path)
        if not _spec(first).get("holderIdentity"):
            return False
        await sleep(float(_spec(first).get("leaseDurationSeconds") or Terms().lease_s))
        second = await client.get(path)
    except Refused as refused:
        if refused.missing:
            return False
        raise
    return bool(_spec(second).get("holderIdentity")) and _version(first) != _version(second)


class Leader:
    """One candidate, `identity`, for the lease at `key`. One task runs `run`; `leading` is asked before each write.

    `changed` is called when `leading` or the holder changed, as far as `run` notices.
    """

    def __init__(
        self,
        client: Client,
        key: Key,
        identity: str,
        *,
        terms: Terms | None = None,
        changed: Callable[[], None] = lambda: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        steady_s: Callable[[], float] = boot_time_s,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.identity = identity
        self.seen: Lead | None = None
        self.trouble: str | None = None
        self._client = client
        self._key = key
        self._terms = terms or Terms()
        self._changed = changed
        self._clock = clock
        self._steady_s = steady_s
        self._chance = chance
        self._leads_until_s = float("-inf")
        self._lease: Json | None = None
        self._lease_seen_s = 0.0
        self._told: tuple[bool, str] = (False, "")

    @property
    def leading(self) -> bool:
        """Whether this one may act now; false by itself when the lease could not be renewed in time."""
        return self._steady_s() < self._leads_until_s

    async def run(self) -> None:
        """Seek and keep the lease until cancelled; then it is given up, so that another takes over at once."""
        try:
            while True:
                await self.step()
                await asyncio.sleep(self.pause_s())
        finally:
            if self.leading:
                await self._give_up()

    def pause_s(self) -> float:
        """Until the next step is due; at random up to a fifth longer, so that candidates do not meet."""
        fine = self.leading and self.trouble is None
        return (self._terms.renew_s if fine else self._terms.retry_s) * (1 + self._chance() / 5)

    async def step(self) -> None:
        """One look, and one try where there is something to take or renew. Faults are kept in `trouble`."""
        try:
            if not self.leading or self._lease is None or self.trouble is not None:
                await self._look()
            if self._may_take():
                await self._take()
            self.trouble = None
        except ApiFault as fault:
            if isinstance(fault, Refused) and fault.conflict:
                self._lease = None  # another one was quicker; look again
            self.trouble = str(fault)
        now = (self.leading, self.seen.holder if self.seen is not None else "")
        if now != self._told:
            self._told = now
            self._changed()

    async def _look(self) -> None:
        path = LEASES.path(self._key.namespace, self._key.name)
        try:
            self._note(await self._client.get(path))
        except Refused as refused:
            if not refused.missing:
                raise
            self._lease, self.seen = None, None

    def _note(self, lease: Json) -> None:
        """Remember it, and since when by our clock it is as it is."""
        if self._lease is None or _version(lease) != _version(self._lease):
            self._lease_seen_s = self._steady_s()
        self._lease = lease
        spec = _spec(lease)
        self.seen = Lead(str(spec.get("holderIdentity") or ""), int(spec.get("leaseTransitions") or 0))
        if self.seen.holder != self.identity:
            self._leads_until_s = float("-inf")

    def _may_take(self) -> bool:
        if self._lease is None or self.seen is None or self.seen.holder in ("", self.identity):
            return True
        lasts_s = float(_spec(self._lease).get("leaseDurationSeconds") or self._terms.lease_s)
        return self._steady_s() - self._lease_seen_s >= lasts_s

    async def _take(self) -> None:
        """Create, renew or take it over; over the version that was seen, so that of two only one succeeds."""
        asked_s = self._steady_s()
        now = _instant(self._clock())
        known = _spec(self._lease) if self._lease is not None else {}
        renews = known.get("holderIdentity") == self.identity
        transitions = int(known.get("leaseTransitions") or 0)
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._terms.lease_s,
            "renewTime": now,
            "acquireTime": known.get("acquireTime", now) if renews else now,
            "leaseTransitions": transitions if renews or self._lease is None else transitions + 1,
        }
        written = await self._write(spec)
        self._lease = None  # whatever it was, this is newer
        self._note(written)
        self._leads_until_s = asked_s + self._terms.lead_s

    async def _write(self, spec: dict[str, Any]) -> Json:
        metadata: dict[str, Any] = {"name": self._key.name, "namespace": self._key.namespace}
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
        if self._lease is None:
            return await self._client.send("POST", LEASES.path(self._key.namespace), body)
        metadata["resourceVersion"] = _version(self._lease)
        return await self._client.send("PUT", LEASES.path(self._key.namespace, self._key.name), body)

    async def _give_up(self) -> None:
        self._leads_until_s = float("-inf")
        try:
            async with asyncio.timeout(RELEASE_S):
                now = _instant(self._clock())
                known = _spec(self._lease) if self._lease is not None else {}
                held = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
                await self._write({**held, "leaseTransitions": int(known.get("leaseTransitions") or 0)})
        except (ApiFault, TimeoutError) as error:
            self.trouble = f"the lease {self._key} could not be given up, it runs out: {error}"


def _spec(lease: Json) -> Json:
    spec: Json = lease.get("spec") or {}
    return spec


def _version(lease: Json) -> str:
    return str(lease.get("metadata", {}).get("resourceVersion") or "")


def _instant(at: datetime) -> str:
    """As MicroTime: the API server refuses a whole second without its fraction."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
