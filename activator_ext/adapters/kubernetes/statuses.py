"""Every status of ours that is to be written now."""

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


_Told = tuple[object, tuple[Report | None, ...], object]


class Statuses:
    """Knows which statuses are as they should be, and does not make them again while nothing changed."""

    def __init__(self) -> None:
        self._right: dict[ObjectId, _Told] = {}

    def writes(
        self,
        policies: Iterable[Ours],
        holds: Iterable[Ours],
        assigned: Assigned,
        held: Holds,
        reports: Mapping[ServiceId, Report],
        now: datetime,
    ) -> tuple[StatusWrite, ...]:
        """The writes that bring every object's status to what is known. `reports`: of the services decided on.

        An object without a verdict, one under deletion, is passed over.
        """
        before, self._right = self._right, {}
        writes: list[StatusWrite] = []
        for ours in policies:
            verdict = assigned.verdicts.get(ObjectId.of(ours.item))
            if verdict is not None:
                told: _Told = (verdict, tuple(reports.get(each) for each in verdict.services), ours.status)
                if not self._is_right(verdict.id, told, before):
                    change = patch(ours.status, policy_status(verdict, reports, ours.status, now))
                    writes += self._noted(POLICIES, verdict.id, told, change, ours)
        for ours in holds:
            judged = held.verdicts.get(ObjectId.of(ours.item))
            if judged is not None:
                report = None if judged.service is None else reports.get(judged.service)
                told = (judged, (report,), ours.status)
                if not self._is_right(judged.id, told, before):
                    change = patch(ours.status, hold_status(judged, report, ours.status, now))
                    writes += self._noted(HOLDS, judged.id, told, change, ours)
        return tuple(writes)

    def _is_right(self, item: ObjectId, told: _Told, before: Mapping[ObjectId, _Told]) -> bool:
        """Whether the same was told before and nothing was to be written."""
        known = before.get(item)
        if known is None or known != told:
            return False
        self._right[item] = known
        return True

    def _noted(
        self, resource: Resource, item: ObjectId, told: _Told, change: Mapping[str, Any] | None, ours: Ours
    ) -> Iterable[StatusWrite]:
        if change is not None:
            return (StatusWrite(resource, item, change, ours.resource_version),)
        self._right[item] = told
        return ()
