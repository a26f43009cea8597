"""Every status of ours that is to be written now. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from activator_ext.adapters.kubernetes.holds import Holds
from activator_ext.adapters.kubernetes.ours import HOLDS, POLICIES, Ours
from activator_ext.adapters.kubernetes.policies import Assigned, ObjectId
from activator_ext.adapters.kubernetes.report import Report
from activator_ext.adapters.kubernetes.resource import Resource
from activator_ext.adapters.kubernetes.status import hold_status, patch, policy_status
from activator_ext.core.model import ServiceId


@dataclass(frozen=True)
class StatusWrite:
    """One write, bound to the version of the object that it was decided on."""

    resource: Resource
    id: ObjectId
    patch: Mapping[str, Any]
    resource_version: str


def status_writes(
    policies: Iterable[Ours],
    holds: Iterable[Ours],
    assigned: Assigned,
    held: Holds,
    reports: Mapping[ServiceId, Report],
    now: datetime,
) -> tuple[StatusWrite, ...]:
    """The writes that bring every object's status to what is known. `reports`: of the services that were decided on.

    An object without a verdict, one under deletion, is passed over.
    """
    writes = []
    for ours in policies:
        verdict = assigned.verdicts.get(ObjectId.of(ours.item))
        if verdict is not None:
            change = patch(ours.status, policy_status(verdict, reports, ours.status, now))
            if change is not None:
                writes.append(StatusWrite(POLICIES, verdict.id, change, ours.resource_version))
    for ours in holds:
        told = held.verdicts.get(ObjectId.of(ours.item))
        if told is not None:
            report = None if told.service is None else reports.get(told.service)
            change = patch(ours.status, hold_status(told, report, ours.status, now))
            if change is not None:
                writes.append(StatusWrite(HOLDS, told.id, change, ours.resource_version))
    return tuple(writes)
