import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.faults import Refused, Unreachable
from activator_ext.adapters.kubernetes.lease import Leader, Terms, anyone_leads
from activator_ext.adapters.kubernetes.resource import Key

KEY = Key("pilotlight", "controller")
T0 = datetime(2026, 11, 30, 9, tzinfo=UTC)


@dataclass
class Leases:
    """The API server's leases: one, with versions. `away`: no answer. `lost`: what is written counts, unanswered."""

    lease: dict[str, Any] | None = None
    version: int = 0
    away: bool = False
    lost: bool = False
    calls: list[str] = field(default_factory=list)

    async def get(self, path: str) -> dict[str, Any]:
        self.calls.append("GET")
        self._reached()
        if self.lease is None:
            raise Refused(path, 404, "NotFound", "no lease")
        return self.lease

    async def send(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(method)
        self._reached()
        known = str(self.version) if self.lease is not None else None
        if body["metadata"].get("resourceVersion") != known:
            raise Refused(path, 409, "Conflict", "it changed")
        self.version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        if self.lost:
            raise Unreachable("the answer was lost")
        return self.lease

    def _reached(self) -> None:
        if self.away:
            raise Unreachable("nobody there")


class Here:
    """Candidates of one lease, on one steady clock that the test moves."""

    def __init__(self, *names: str) -> None:
        self.leases = Leases()
        self.now_s = 1000.0
        self.changes: list[str] = []
        self.all = {name: self.candidate(name) for name in names}

    def candidate(self, name: str) -> Leader:
        return Leader(
            cast("Client", self.leases),
            KEY,
            name,
            changed=lambda: self.changes.append(name),
            clock=lambda: T0,
            steady_s=lambda: self.now_s,
            chance=lambda: 0.0,
        )

    @property
    def leading(self) -> list[str]:
        return [name for name, leader in self.all.items() if leader.leading]


async def test_the_first_creates_it_and_leads_and_the_second_waits() -> None:
    here = Here("a", "b")
    await here.all["a"].step()
    await here.all["b"].step()
    assert here.leading == ["a"]
    assert here.leases.lease is not None
    assert here.leases.lease["spec"] == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-11-30T09:00:00.000000Z",
        "acquireTime": "2026-11-30T09:00:00.000000Z",
        "leaseTransitions": 0,
    }
    assert here.all["b"].seen is not None
    assert here.all["b"].seen.holder == "a"
    assert here.changes == ["a", "b"]


async def test_a_leader_renews_with_one_request_each() -> None:
    here = Here("a")
    for _ in range(5):
        await here.all["a"].step()
        here.now_s += here.all["a"].pause_s()
    assert here.leases.calls == ["GET", "POST", "PUT", "PUT", "PUT", "PUT"]
    assert here.leading == ["a"]
    assert here.changes == ["a"]


async def test_a_leader_that_cannot_renew_stops_before_another_may_begin() -> None:
    here = Here("a", "b")
    await here.all["a"].step()
    await here.all["b"].step()
    here.now_s += 9.9
    assert here.leading == ["a"]
    here.now_s += 0.1
    assert here.leading == []
    here.now_s += 4.9
    await here.all["b"].step()
    assert here.leading == []
    here.now_s += 0.1
    await here.all["b"].step()
    assert here.leading == ["b"]
    assert here.leases.lease is not None
    assert here.leases.lease["spec"]["leaseTransitions"] == 1
    await here.all["a"].step()
    assert here.leading == ["b"]


async def test_given_up_at_the_end_it_is_taken_at_once() -> None:
    here = Here("a", "b")
    task = asyncio.create_task(here.all["a"].run())
    while not here.all["a"].leading:  # noqa: ASYNC110  (told by nobody)
        await asyncio.sleep(0)
    await here.all["b"].step()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert here.leading == []
    await here.all["b"].step()
    assert here.leading == ["b"]


async def test_an_api_server_that_is_away_is_told_and_got_over() -> None:
    here = Here("a")
    await here.all["a"].step()
    here.leases.away = True
    here.now_s += 4
    await here.all["a"].step()
    assert here.leading == ["a"]
    assert here.all["a"].trouble == "nobody there"
    assert here.all["a"].pause_s() == 2
    here.leases.away = False
    here.now_s += 30
    await here.all["a"].step()
    assert here.leading == ["a"]
    assert here.all["a"].trouble is None


async def test_a_renewal_whose_answer_was_lost_is_found_out() -> None:
    here = Here("a")
    await here.all["a"].step()
    here.leases.lost = True
    here.now_s += 4
    await here.all["a"].step()
    here.leases.lost = False
    await here.all["a"].step()
    assert here.leading == ["a"]
    assert here.leases.version == 3


@pytest.mark.parametrize(
    ("what", "leads"), [("renews", True), ("dead", False), ("given up", False), ("none", False), ("ends", False)]
)
async def test_whether_anyone_leads_is_seen_by_renewals(what: str, leads: bool) -> None:
    here = Here("a")
    if what != "none":
        await here.all["a"].step()
    assert what == "none" or here.leases.lease is not None
    if what == "given up" and here.leases.lease is not None:
        here.leases.lease["spec"]["holderIdentity"] = ""
    slept = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        here.now_s += 4
        if what == "renews":
            await here.all["a"].step()
        if what == "ends":
            here.leases.lease = None

    assert await anyone_leads(cast("Client", here.leases), KEY, sleep=sleep) is leads
    assert slept == ([] if what in ("none", "given up") else [15])


def test_the_terms_keep_two_from_leading() -> None:
    terms = Terms()
    assert terms.lead_s + terms.retry_s < terms.lease_s
    assert 2 * terms.renew_s < terms.lead_s


moves = st.lists(
    st.tuples(st.sampled_from("abc"), st.floats(0, 20), st.sampled_from(["well", "well", "away", "lost"])),
    max_size=60,
)


@given(moves)
def test_never_two_lead_whatever_comes_when(way: list[tuple[str, float, str]]) -> None:
    here = Here("a", "b", "c")

    async def go() -> None:
        for name, later_s, how in way:
            here.now_s += later_s
            here.leases.away, here.leases.lost = how == "away", how == "lost"
            await here.all[name].step()
            assert len(here.leading) <= 1

    asyncio.run(go())
