"""What was wanted when, known from what clients, users and files did, never from what the product concluded."""

from collections import deque
from dataclasses import dataclass, field
from math import ceil

from activator_ext.core.model import Policy, ServiceId
from tests.races.clients import Request
from tests.races.scenario import Planned, Service

KEPT_S = 400.0


@dataclass
class HeldFloor:
    """One acknowledged hold, in seconds of the run."""

    id: str
    service: ServiceId
    replicas: int
    created_s: float
    begins_s: float
    until_s: float


@dataclass
class _Story:
    """Per service: (instant, wanted from then on, requests), oldest first."""

    wanted: deque[tuple[float, int, int]] = field(default_factory=deque)


class Truth:
    """Requests, holds and files as they are, and how disturbed the machine is."""

    def __init__(self) -> None:
        self.services: dict[ServiceId, Service] = {}
        self.last: dict[ServiceId, Service] = {}
        """As each was before its last edit."""
        self.gone_s: dict[ServiceId, list[float]] = {}
        """When it was deleted, each time."""
        self.edited_s: dict[ServiceId, float] = {}
        self.requests: list[Request] = []
        self.open: dict[ServiceId, dict[int, Request]] = {}
        self.holds: list[HeldFloor] = []
        self.lead_s: dict[ServiceId, float] = {}
        self.disturbed_s: tuple[float, float] = (-1000.0, -1000.0)
        """Begin and end of the present or last disturbance: a killed or stalled process, and getting over it."""
        self.first_disturbed_s = float("inf")
        self._stories: dict[ServiceId, _Story] = {}

    def disturb(self, now_s: float, for_s: float) -> None:
        """Something other than an engine is dead or stands still for so long."""
        begin_s, end_s = self.disturbed_s
        self.first_disturbed_s = min(self.first_disturbed_s, now_s)
        self.disturbed_s = (begin_s if now_s < end_s else now_s, max(end_s, now_s + for_s))

    def calm_since_s(self) -> float:
        """The machine is, or will be, undisturbed from then on."""
        return self.disturbed_s[1]

    def lookback_s(self, now_s: float) -> float:
        """How far back the cause of something done now may lie: messages take a while, longer when disturbed."""
        begin_s, end_s = self.disturbed_s
        return 5.0 + (now_s - begin_s if now_s < end_s + 5.0 else 0.0)

    def policy(self, service: ServiceId) -> Policy | None:
        known = self.services.get(service)
        return None if known is None else known.policy

    def wanted(self, service: ServiceId, now_s: float, *, early: bool) -> int:
        """Replicas wanted now. `early`: announced ones count from their lead time before; else from their minute."""
        found = [self.services[service]] if service in self.services else []
        if early and now_s - self.edited_s.get(service, -1e9) < self.lookback_s(now_s):
            found.append(self.last[service])  # an edit or deletion may not have been heard of yet
        return max((self._wanted(known, now_s, early=early) for known in found), default=0)

    def _wanted(self, known: Service, now_s: float, *, early: bool) -> int:
        service, policy = known.id, known.policy
        count = len(self.open.get(service, ()))
        wanted = [policy.bounds.min, ceil(count / policy.queue.target)]
        lead_s = self.lead_s.get(service, 0.0) if early else 0.0
        lead_s = max(lead_s, policy.prior_lead_s) + 1.0 if early else 0.0
        for hold in self.holds:
            begins_s = max(hold.created_s, hold.begins_s - lead_s)
            if hold.service == service and begins_s <= now_s < hold.until_s:
                wanted.append(hold.replicas)
        wanted += [plan.replicas for plan in known.planned if _begins(plan, lead_s) <= now_s < plan.until_s]
        return min(max(wanted), policy.bounds.max)

    def note(self, service: ServiceId, now_s: float) -> None:
        """Write down what is wanted: to be called whenever that may have changed."""
        story = self._stories.setdefault(service, _Story()).wanted
        story.append((now_s, self.wanted(service, now_s, early=True), len(self.open.get(service, ()))))
        while story[0][0] < now_s - KEPT_S:
            story.popleft()

    def most_wanted(self, service: ServiceId, since_s: float, now_s: float) -> int:
        """The most that was wanted at any instant of [since, now]."""
        most, requests = self.wanted(service, now_s, early=True), 0
        for at_s, wanted, count in reversed(self._stories.get(service, _Story()).wanted):
            most, requests = max(most, wanted), max(requests, count)
            if at_s < since_s:
                break
        policy = self.policy(service)
        if policy is not None and self.edited_s.get(service, -1e9) >= since_s:
            # A policy that is new meets requests of which only an earlier number is known yet.
            most = max(most, min(ceil(requests / policy.queue.target), policy.bounds.max))
        return most


def _begins(plan: Planned, lead_s: float) -> float:
    return plan.ready_by_s - lead_s if plan.early else plan.ready_by_s
