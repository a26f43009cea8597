"""The plan of one service as the API and `pilotlight preview` show it."""

from datetime import datetime, timedelta

from activator_ext.app.views import PreviewView, WindowView
from activator_ext.core.leadtime import LeadTimes
from activator_ext.core.model import Policy, ServiceId, StartKind
from activator_ext.core.schedule import PlannedWindow, preview


def preview_view(
    service: ServiceId, policy: Policy, known: LeadTimes, kind: StartKind, begin: datetime, days: float
) -> PreviewView:
    """The windows of [begin, begin + days), planned with the lead times of `kind`; requests come on top."""
    planned = preview(policy, lambda replicas: known.plan_s(kind, replicas=replicas), begin, days)
    return PreviewView.model_validate(
        {
            "service": str(service),
            "from": begin,
            "to": begin + timedelta(days=days),
            "lead_time_s": known.plan_s(kind),
            "windows": tuple(_window(each) for each in planned),
            "warm_hours": _warm_s(planned, begin, begin + timedelta(days=days)) / 3600,
        }
    )


def _window(planned: PlannedWindow) -> WindowView:
    return WindowView(
        asked_at=planned.asked_at,
        ready_by=planned.ready_by,
        until=planned.until,
        local_ready_by=planned.local_ready_by,
        local_until=planned.local_until,
        replicas=planned.replicas,
        source=planned.source,
        dst=planned.dst,
    )


def _warm_s(planned: tuple[PlannedWindow, ...], start: datetime, end: datetime) -> float:
    """Seconds of [start, end) in which at least one replica is asked for: 9–12 and 11–14 are five hours, not six."""
    total, reached = timedelta(), start
    for window in planned:  # by asked_at
        begin, until = max(window.asked_at, reached), min(window.until, end)
        if window.replicas and until > begin:
            total += until - begin
            reached = until
    return total.total_seconds()
