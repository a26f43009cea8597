"""The conditions of our objects: Accepted, Conflict, Ready. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from activator_ext.adapters.kubernetes.holds import HoldVerdict
from activator_ext.adapters.kubernetes.policies import Outcome, Verdict
from activator_ext.adapters.kubernetes.report import Report
from activator_ext.adapters.kubernetes.status_fields import Condition
from activator_ext.adapters.kubernetes.texts import instant_text
from activator_ext.adapters.local.findings import Finding, listed
from activator_ext.core.model import ServiceId
from activator_ext.core.visible import visible
from runtime.contract import Mark

LONGEST_MESSAGE = 1024
"""Most characters of a message in a status."""
_SAID = 5
"""Most findings that a message holds; of the others the number is said."""

REASONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Accepted": {
        "Accepted": ("True", "it is valid and counts; the message says for what, and what of it has no effect"),
        "Invalid": ("False", "it cannot be used; the message says what to mend, and what counts meanwhile"),
        "NoSuchService": ("False", "no service has the name that it gives; it counts as soon as there is one"),
        "OlderPolicyCounts": ("False", "an older policy is for the same service"),
        "NoServiceLeft": ("False", "a policy `default` whose namespace has no service without a policy"),
    },
    "Conflict": {
        "NoOtherPolicy": ("False", "no other policy names its service"),
        "SecondPolicy": ("True", "others do; the message names them, and which counts"),
    },
    "Ready": {
        "FloorMet": ("True", "as many replicas as wanted are ready"),
        "NothingWanted": ("True", "no warm replica is wanted now"),
        "Warming": ("False", "fewer are ready than wanted"),
        "StartFailed": ("False", "the same, and the newest start failed; the message says why"),
        "NotAccepted": ("False", "it counts for no service"),
        "NotObserved": ("Unknown", "nothing is known of its service yet"),
        "Bounded": ("False", "a hold for more replicas than bounds.max or maxReplicas lets it have"),
        "Announced": ("False", "a hold whose `readyBy` is to come"),
        "Expired": ("False", "a hold that is over"),
        "Refused": ("False", "a hold that cannot be used: see Accepted"),
    },
}
"""Every reason of every condition: its status and what it means."""

_Truth = Literal["True", "False", "Unknown"]
Told = tuple[str, _Truth, str, str]
"""Type, status, reason and message of a condition."""


@dataclass(frozen=True)
class Conditions:
    """Makes conditions that keep their age while their status stays."""

    generation: int
    before: Mapping[str, Any]
    now: datetime

    def all(self, *wanted: Told) -> list[Condition]:
        """Each as a condition."""
        return [self._one(*each) for each in wanted]

    def _one(self, kind: str, status: _Truth, reason: str, message: str) -> Condition:
        known = self.before.get("conditions") or ()
        same = (each for each in known if each.get("type") == kind and each.get("status") == status)
        since = next((each.get("lastTransitionTime") for each in same), None)
        return Condition(
            type=kind,
            status=status,
            reason=reason,
            message=visible(message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}…"),
            observed_generation=self.generation,
            last_transition_time=since or instant_text(self.now),
        )


def accepted(verdict: Verdict) -> Told:
    """Whether the policy counts, and why not."""
    errors, warnings = _said(verdict.findings, "error"), _said(verdict.findings, "warning")
    match verdict.outcome:
        case Outcome.ACCEPTED:
            counted = str(verdict.services[0]) if verdict.single else f"{len(verdict.services)} services without one"
            return "Accepted", "True", verdict.outcome, _joined(f"it counts for {counted}.", *warnings)
        case Outcome.SUPERSEDED:
            return "Accepted", "False", verdict.outcome, f"{verdict.counts}, the older one, counts. Remove one."
        case Outcome.UNUSED:
            message = f"no service of namespace {verdict.id.namespace} is without a policy."
            return "Accepted", "False", verdict.outcome, f"{message} Remove it, or add a service to this namespace."
        case _:
            kept = () if verdict.kept is None else (f"Until it is mended, generation {verdict.kept} of it counts.",)
            return "Accepted", "False", verdict.outcome, _joined(*errors, *kept)


def conflict(verdict: Verdict) -> Told:
    """Whether another policy names the same service, and which counts."""
    if not verdict.rivals:
        return "Conflict", "False", "NoOtherPolicy", "no other policy names the same service."
    others = f"{'a second policy' if len(verdict.rivals) == 1 else 'other policies'}, {listed(verdict.rivals)}"
    if verdict.counts is None:
        counts = "none of them is valid"
    else:
        counts = f"{verdict.counts}, the oldest that is valid, counts"
    return "Conflict", "True", "SecondPolicy", f"its service has {others}; {counts}. Remove all but one."


def ready(verdict: Verdict, known: Mapping[ServiceId, Report]) -> Told:
    """Whether its services are as warm as wanted. `known`: those of which something is known."""
    if not verdict.services:
        return "Ready", "False", "NotAccepted", "it counts for no service: see the condition Accepted."
    unknown = [service for service in verdict.services if service not in known]
    late = [service for service in sorted(known) if known[service].ready_replicas < known[service].floor.replicas]
    failed = [service for service in late if _failing(known[service])]
    if late and verdict.single:
        return "Ready", *_late(known[late[0]])
    if late:
        why = "StartFailed" if failed else "Warming"
        names = listed([service.name for service in failed or late])
        return "Ready", "False", why, f"{len(failed or late)} of {len(verdict.services)} services: {names}."
    if unknown:
        names = listed([service.name for service in unknown])
        return "Ready", "Unknown", "NotObserved", f"nothing is known yet of {names}."
    if not any(report.floor.replicas for report in known.values()):
        return "Ready", "True", "NothingWanted", "no warm replica is wanted now."
    return "Ready", "True", "FloorMet", "as many replicas as wanted are ready."


def _late(report: Report) -> tuple[_Truth, str, str]:
    if _failing(report) and report.last_failure is not None:
        return "False", "StartFailed", f"{report.last_failure.cause}: {report.last_failure.message}"
    wanted = report.floor.replicas
    return "False", "Warming", f"{report.ready_replicas} of {wanted} wanted replicas are ready."


def _failing(report: Report) -> bool:
    """Whether the newest that is known of its starts is a failure."""
    start, failure = report.last_start, report.last_failure
    if failure is None:
        return False
    ready_at = None if start is None or start.outcome != "ready" else start.marks.get(Mark.T9)
    return ready_at is None or failure.at > ready_at


def hold_accepted(verdict: HoldVerdict) -> Told:
    """Whether the hold counts, and why not."""
    if verdict.outcome is Outcome.ACCEPTED:
        return "Accepted", "True", verdict.outcome, f"it counts for {verdict.service}."
    return "Accepted", "False", verdict.outcome, _joined(*_said(verdict.findings, "error"))


def hold_ready(verdict: HoldVerdict, report: Report | None) -> Told:
    """Whether its service is as warm as wanted. `report`: of the service, if anything is known of it."""
    if verdict.state in ("Expired", "Refused"):
        return "Ready", "False", verdict.state, "it asks for nothing."
    if verdict.state == "Announced":
        return "Ready", "False", "Announced", "its time is to come."
    if report is None:
        return "Ready", "Unknown", "NotObserved", "nothing is known of its service."
    if verdict.replicas > report.floor.replicas:
        most = f"{report.floor.replicas} of {verdict.replicas} replicas: bounds.max of its policy allows no more"
        return (
            "Ready",
            "False",
            "Bounded",
            f"{most} (without one, maxReplicas of the service, and 1 where that is absent).",
        )
    if report.ready_replicas >= report.floor.replicas:
        return "Ready", "True", "FloorMet", "as many replicas as wanted are ready."
    return "Ready", *_late(report)


def _said(findings: Iterable[Finding], severity: str) -> list[str]:
    """Findings as sentences: what a file's line says, without the file."""
    texts = []
    for each in findings:
        if each.severity == severity:
            place = ": ".join(part for part in (each.file, each.key) if part)
            texts.append(f"{place}: {each.message}. {each.fix}" if place else f"{each.message}. {each.fix}")
    rest = [f"{len(texts) - _SAID} more."] if len(texts) > _SAID else []
    return texts[:_SAID] + rest


def _joined(*sentences: str) -> str:
    return " ".join(sentences)
