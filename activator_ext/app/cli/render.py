"""What the API answers, as tables and lines for a terminal; every text is shown as it is, never read as markup."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from rich.table import Table
from rich.text import Text

from activator_ext.app.views import EventView, HoldView, PreviewView, ServiceStatus
from activator_ext.core.model import Warmth
from activator_ext.core.visible import visible
from runtime.contract import StartRecord

_STYLES = {
    Warmth.WARM: "green",
    Warmth.BUSY: "green",
    Warmth.WARMING: "yellow",
    Warmth.PARKED_L1: "cyan",
    Warmth.PARKED_L2: "cyan",
    Warmth.FAILED: "red",
}


def services_table(services: Iterable[ServiceStatus], zone: ZoneInfo, now: datetime) -> Table:
    """`pilotlight status`: one service a row."""
    table = _table("service", "warmth", "floor", "why", "next warm", "lead time", right=("floor", "lead time"))
    for each in services:
        table.add_row(
            Text(visible(each.service)),
            _warmth(each, now),
            Text(str(each.floor)),
            Text(visible(each.reason.text)),
            Text(clock(each.next_warm_at, zone, now)),
            Text(duration(each.lead_time_s)),
        )
    return table


def service_detail(status: ServiceStatus, zone: ZoneInfo, now: datetime) -> Table:
    """`pilotlight status SERVICE`: everything known of one, a fact a row."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, fact in _facts(status, zone, now):
        table.add_row(Text(name), fact if isinstance(fact, Text) else Text(visible(fact)))
    return table


def starts_table(starts: Iterable[StartRecord], zone: ZoneInfo, now: datetime) -> Table:
    """`pilotlight starts SERVICE`: the newest first."""
    table = _table("start", "asked at", "kind", "outcome", "took", "named", "why", right=("took", "named"))
    for each in starts:
        asked = min(each.marks.values(), default=None)
        outcome: str = each.outcome or "under way"
        if each.failure is not None:
            outcome = f"{outcome}: {each.failure.cause.value}"
        table.add_row(
            Text(visible(each.id)),
            Text(clock(asked, zone, now)),
            Text(each.kind.value),
            Text(outcome, style={"ready": "green", "failed": "red"}.get(each.outcome or "", "")),
            Text("-" if each.ready_s is None else f"{each.ready_s:.1f} s"),
            Text("-" if each.attributed is None else f"{each.attributed:.0%}"),
            Text(visible(each.why)),
        )
    return table


def holds_table(holds: Iterable[HoldView], zone: ZoneInfo, now: datetime) -> Table:
    """`pilotlight holds`."""
    table = _table("hold", "service", "replicas", "state", "ready by", "until", "reason", right=("replicas",))
    for each in holds:
        table.add_row(
            Text(visible(each.id)),
            Text(visible(each.service)),
            Text(str(each.replicas)),
            Text(each.state, style="green" if each.state == "active" else ""),
            Text("soonest" if each.ready_by is None else clock(each.ready_by, zone, now)),
            Text(clock(each.until, zone, now)),
            Text(visible(each.reason)),
        )
    return table


def preview_table(preview: PreviewView) -> Table:
    """`pilotlight preview SERVICE`, in each schedule's own zone; clock changes are marked."""
    table = _table("warm from", "until", "replicas", "why", right=("replicas",))
    for each in preview.windows:
        why = Text(visible(each.source))
        if each.dst is not None:
            why.append(f"\nDST: {visible(each.dst)}", style="yellow")
        table.add_row(Text(each.local_ready_by), Text(each.local_until), Text(str(each.replicas)), why)
    return table


def preview_summary(preview: PreviewView) -> str:
    """What stands under the preview's table."""
    count = len(preview.windows)
    return (
        f"{count} {'window' if count == 1 else 'windows'}, {preview.warm_hours:.1f} h warm or starting; a start is "
        f"planned with {duration(preview.lead_time_s)} (P95). Schedules only: requests and holds come on top."
    )


def event_line(event: EventView, zone: ZoneInfo) -> str:
    """`2026-11-30 09:00:01  team-a/chat  floor  floor 0 → 1: 1 waiting, 0 running`."""
    at = f"{event.at.astimezone(zone):%Y-%m-%d %H:%M:%S}"
    why = f": {event.reason.text}" if event.reason is not None and event.reason.text not in event.text else ""
    return visible(f"{at}  {event.service or '-'}  {event.kind}  {event.text}{why}")


def hold_line(hold: HoldView, zone: ZoneInfo, now: datetime) -> str:
    """What `pilotlight prewarm` says once the hold stands."""
    ready = "as soon as possible" if hold.ready_by is None else f"by {clock(hold.ready_by, zone, now)}"
    count = f"{hold.replicas} {'replica' if hold.replicas == 1 else 'replicas'}"
    return visible(
        f"hold {hold.id}: {count} of {hold.service} ready {ready}, until {clock(hold.until, zone, now)}; "
        f"end it earlier with `pilotlight holds --release {hold.id}`"
    )


def progress_line(status: ServiceStatus, now: datetime) -> str:
    """How far a start is: `warming: compile, about 12 s left`."""
    stage = f": {status.stage.value}" if status.stage is not None else ""
    left = ""
    if status.eta_at is not None:
        left = f", about {duration(max((status.eta_at - now).total_seconds(), 0.0))} left"
    return f"{status.warmth.value}{stage}{left}"


def clock(instant: datetime | None, zone: ZoneInfo, now: datetime) -> str:
    """`09:00:12` today, `Mon 09:00` within six days, `24 Dec 09:00` or `2027-12-24` further off; `-` for none."""
    if instant is None:
        return "-"
    local = instant.astimezone(zone)
    if local.date() == now.astimezone(zone).date():
        return f"{local:%H:%M:%S}"
    # A weekday alone is clear only if no other day within sight has that name.
    if abs(instant - now) < timedelta(days=6):
        return f"{local:%a %H:%M}"
    return f"{local:%d %b %H:%M}" if abs(instant - now) < timedelta(days=300) else f"{local:%Y-%m-%d}"


def duration(seconds: float) -> str:
    """`0.4 s`, `44 s`, `2 min 5 s`, `3 h 20 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (0 if hours else rest, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


# What is copied (ids) or read at a glance (instants, numbers) stays in one piece; sentences give way.
_WRAPPING = frozenset({"service", "warmth", "outcome", "why", "reason"})


def _table(*names: str, right: tuple[str, ...] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        side: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(name, justify=side, overflow="fold", no_wrap=name not in _WRAPPING, min_width=len(name))
    return table


def _warmth(status: ServiceStatus, now: datetime) -> Text:
    text = progress_line(status, now) if status.warmth is Warmth.WARMING else status.warmth.value
    return Text(text, style=_STYLES.get(status.warmth, ""))


def _facts(status: ServiceStatus, zone: ZoneInfo, now: datetime) -> Iterator[tuple[str, str | Text]]:
    yield "service", status.service
    yield "warmth", _warmth(status, now)
    until = "" if status.floor_until is None else f" until {clock(status.floor_until, zone, now)}"
    yield "floor", f"{status.floor}{until} (never under {status.min} or over {status.max})"
    yield "why", status.reason.text
    for demand in status.demands:
        end = "open" if demand.until is None else clock(demand.until, zone, now)
        span = f"{clock(demand.since, zone, now)} to {end}"
        yield f"  {demand.kind.value}", f"{demand.replicas} from {span}: {demand.reason.text}"
    waiting, running = ("unknown" if count is None else str(count) for count in (status.waiting, status.running))
    yield "requests", f"{waiting} waiting, {running} running"
    yield "next warm", clock(status.next_warm_at, zone, now)
    yield "lead time", f"{duration(status.lead_time_s)} planned with"
    for lead in status.lead_times:
        count = f"{lead.samples} own {'start' if lead.samples == 1 else 'starts'}"
        yield f"  {lead.kind.value}", f"P50 {duration(lead.p50_s)}, P95 {duration(lead.p95_s)} ({count})"
    for replica in status.replicas:
        words = [replica.warmth.value, f"since {clock(replica.since, zone, now)}"]
        words += [f"in {replica.stage.value}"] if replica.stage is not None else []
        words += ["draining"] if replica.draining else []
        words += [f"pid {replica.pid}"] if replica.pid is not None else []
        yield "replica", f"{replica.id}: {', '.join(words)}"
    if status.last_failure is not None:
        failure = status.last_failure
        yield "last failure", f"{clock(failure.at, zone, now)} {failure.cause.value}: {failure.message}"
    if status.retry_at is not None:
        yield "next try", f"from {clock(status.retry_at, zone, now)}, if anything wants it then"
    if status.last_start_id is not None:
        yield "last start", f"{status.last_start_id} (`pilotlight starts {status.service}` shows where its time went)"
