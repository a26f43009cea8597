"""Decisions → the status of our objects, and what of it to write. Pure.

Nothing is written that did not change, and nothing changes without cause: instants are whole seconds, what moves with
each request (busy or warm, how many wait, how long it is idle, a floor's end that requests push on) is left to the API
and the metrics, and the words for it stay true meanwhile.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from activator_ext.adapters.kubernetes.conditions import (
    LONGEST_MESSAGE,
    Conditions,
    accepted,
    conflict,
    hold_accepted,
    hold_ready,
    ready,
)
from activator_ext.adapters.kubernetes.holds import HoldVerdict
from activator_ext.adapters.kubernetes.policies import Verdict
from activator_ext.adapters.kubernetes.report import Report
from activator_ext.adapters.kubernetes.status_fields import (
    MOST_SERVICES,
    FailureStatus,
    HoldStatus,
    LeadTimeStatus,
    Part,
    PolicyStatus,
    ReasonStatus,
    ServiceStatus,
    StartStatus,
)
from activator_ext.adapters.kubernetes.texts import duration_text, instant_text
from activator_ext.core.leadtime import LeadTime
from activator_ext.core.model import (
    DemandKind,
    Floor,
    Reason,
    ReasonCode,
    ServiceId,
    Warmth,
)
from activator_ext.core.visible import visible
from runtime.contract import Failure, Mark, StartRecord

IDLE_SHOWN_S = 60.0
"""An idle time is shown from this length on: between requests that follow sooner the reason stays `requests`."""

_TEXTS: Mapping[ReasonCode, str] = MappingProxyType(
    {
        ReasonCode.REQUESTS: "requests are waiting or running, or were within the last minute",
        ReasonCode.IDLE_KEEP: "idle; kept for the {keep_s:.0f} s that one cold start is worth",
        ReasonCode.BOUNDS_MAX: "more are wanted, never more than bounds.max {max}",
    }
)
_MOVING = frozenset({"waiting", "running", "idle_s", "wanted"})
"""Numbers of a reason that change while nothing happens."""


def policy_status(
    verdict: Verdict, reports: Mapping[ServiceId, Report], before: Mapping[str, Any], now: datetime
) -> PolicyStatus:
    """The status of one policy. `before`: its status as the API has it, from which conditions keep their age."""
    known = {service: reports[service] for service in verdict.services if service in reports}
    conditions = Conditions(verdict.generation, before, now).all(
        accepted(verdict), conflict(verdict), ready(verdict, known)
    )
    one = next(iter(known.values()), None) if verdict.single else None
    shared = {
        "observed_generation": verdict.generation,
        "service_count": len(verdict.services),
        "conditions": conditions,
    }
    if one is None:
        listing = [] if verdict.single else [_service(service, known[service]) for service in sorted(known)]
        return PolicyStatus(**shared, services=listing[:MOST_SERVICES])
    return PolicyStatus(
        **shared,
        warmth=_warmth(one.warmth),
        ready_replicas=one.ready_replicas,
        floor=one.floor.replicas,
        floor_until=_until(one.floor),
        reason=_reason(one.floor.reason),
        next_warm_time=None if one.next_warm_at is None else instant_text(one.next_warm_at),
        lead_time=duration_text(one.lead_s),
        lead_times=[_lead_time(each) for each in one.lead_times],
        last_start=None if one.last_start is None else _start(one.last_start),
        last_failure=None if one.last_failure is None else _failure(one.last_failure),
    )


def hold_status(verdict: HoldVerdict, report: Report | None, before: Mapping[str, Any], now: datetime) -> HoldStatus:
    """The status of one hold. `report`: of its service, None if it has none or nothing is known of it."""
    conditions = Conditions(verdict.generation, before, now).all(hold_accepted(verdict), hold_ready(verdict, report))
    return HoldStatus(
        observed_generation=verdict.generation,
        state=verdict.state,
        until=None if verdict.until is None else instant_text(verdict.until),
        conditions=conditions,
    )


def patch(before: Mapping[str, Any], after: Part) -> dict[str, Any] | None:
    """The merge patch of `status` that makes `before` into `after`, None if it is so already."""
    wanted = after.model_dump(mode="json", by_alias=True, exclude_none=True)
    wanted = {key: value for key, value in wanted.items() if value != []}
    changed = {key: value for key, value in wanted.items() if before.get(key) != value}
    gone: dict[str, Any] = {key: None for key in before if key not in wanted}
    for key, value in changed.items():
        changed[key] = _merging(before.get(key), value)
    return changed | gone or None


def _merging(before: object, value: Any) -> Any:
    """A merge patch joins mappings: a key of the old one that is to go needs its null."""
    if not isinstance(before, Mapping) or not isinstance(value, Mapping):
        return value
    return {key: _merging(before.get(key), item) for key, item in value.items()} | {
        key: None for key in before if key not in value
    }


def _warmth(warmth: Warmth) -> Warmth:
    """Busy or warm changes with each request."""
    return Warmth.WARM if warmth is Warmth.BUSY else warmth


def _until(floor: Floor) -> str | None:
    """A floor's end, where it is announced: requests push theirs on."""
    if floor.until is None or floor.demand not in (DemandKind.SCHEDULE, DemandKind.HOLD):
        return None
    return instant_text(floor.until)


def _steady(reason: Reason) -> Reason:
    """`requests` instead of an idle time that has only begun."""
    if reason.code is ReasonCode.IDLE_KEEP and float(reason.numbers["idle_s"]) < IDLE_SHOWN_S:
        return Reason(ReasonCode.REQUESTS)
    return reason


def _reason(reason: Reason) -> ReasonStatus:
    shown = _steady(reason)
    text = _TEXTS[shown.code].format(**shown.numbers) if shown.code in _TEXTS else shown.text
    numbers = {key: _number(value) for key, value in shown.numbers.items() if key not in _MOVING}
    return ReasonStatus(code=shown.code, text=text, numbers=numbers)


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{round(value, 1):.10g}"


def _service(service: ServiceId, report: Report) -> ServiceStatus:
    return ServiceStatus(
        name=service.name,
        warmth=_warmth(report.warmth),
        floor=report.floor.replicas,
        reason=_steady(report.floor.reason).code,
    )


def _lead_time(each: LeadTime) -> LeadTimeStatus:
    return LeadTimeStatus(
        kind=each.kind, p50=duration_text(each.p50_s), p95=duration_text(each.p95_s), samples=each.samples
    )


def _start(start: StartRecord) -> StartStatus:
    asked = start.marks.get(Mark.T0)
    return StartStatus(
        id=start.id,
        kind=start.kind,
        outcome=start.outcome or "cancelled",
        began_time=None if asked is None else instant_text(asked),
        took=None if start.ready_s is None else duration_text(start.ready_s),
    )


def _failure(failure: Failure) -> FailureStatus:
    message = visible(failure.message)
    return FailureStatus(cause=failure.cause, message=message[:LONGEST_MESSAGE], time=instant_text(failure.at))
