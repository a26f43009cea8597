"""A ControllerFacade out of plain lists, and the values that API and CLI tests share."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from activator_ext.app.views import (
    DemandView,
    EventView,
    HoldRequest,
    HoldView,
    InvalidRequest,
    LeadTimeView,
    PlanView,
    PreviewView,
    ReasonView,
    ReplicaStatus,
    ServiceStatus,
    UnknownService,
    WindowView,
)
from activator_ext.core.model import DemandKind, ServiceId, StartKind, Warmth
from runtime import contract
from runtime.contract import Mark, Stage, StageTime, StartRecord

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
REQUESTS = ReasonView(code="requests", text="1 waiting, 0 running", numbers={"waiting": 1, "running": 0})
NO_DEMAND = ReasonView(code="no-demand", text="nothing wants it")
OFFICE = ReasonView(
    code="schedule-ready-by",
    text="schedule office: ready by 2026-11-30T09:00:00+01:00; a start takes 44 s (P95)",
    numbers={"name": "office", "ready_by": "2026-11-30T09:00:00+01:00", "lead_s": 44.0},
)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def warm_service(name: str = "team-a/chat") -> ServiceStatus:
    """A service that answers."""
    return ServiceStatus(
        service=name,
        warmth=Warmth.WARM,
        replicas=(
            ReplicaStatus(
                id=f"{name}/0",
                warmth=Warmth.WARM,
                since=NOW - seconds(60),
                ready_at=NOW - seconds(60),
                pid=4711,
                url="http://127.0.0.1:40001",
            ),
        ),
        floor=1,
        floor_until=NOW + seconds(600),
        reason=REQUESTS,
        demands=(
            DemandView(
                kind=DemandKind.QUEUE,
                replicas=1,
                since=NOW - seconds(120),
                until=NOW + seconds(600),
                active=True,
                reason=REQUESTS,
            ),
            DemandView(
                kind=DemandKind.SCHEDULE,
                replicas=1,
                since=NOW + seconds(86400),
                until=NOW + seconds(90000),
                active=False,
                reason=OFFICE,
            ),
        ),
        waiting=1,
        running=0,
        stage=None,
        eta_at=None,
        next_warm_at=NOW + seconds(86444),
        lead_time_s=44.0,
        lead_times=(LeadTimeView(kind=StartKind.CACHED_NODE, p50_s=38.2, p95_s=44.0, samples=7),),
        last_failure=None,
        last_start_id="local-7",
        min=0,
        max=1,
    )


def cold_service(name: str = "team-a/draft") -> ServiceStatus:
    """A service at zero that nothing wants."""
    return warm_service(name).model_copy(
        update={
            "warmth": Warmth.COLD,
            "replicas": (),
            "floor": 0,
            "floor_until": None,
            "reason": NO_DEMAND,
            "demands": (),
            "waiting": 0,
            "next_warm_at": None,
            "last_start_id": None,
        }
    )


def ready_start(start_id: str = "local-7", service: str = "team-a/chat") -> StartRecord:
    """Twenty seconds from T0 to T9, nineteen of them named, two stages at the same time."""

    def stage(name: Stage, begin_s: float, took_s: float, span_s: float | None = None) -> StageTime:
        begun = NOW + seconds(begin_s)
        return StageTime(stage=name, begun_at=begun, elapsed_ms=took_s * 1000, evidence="log", span_s=span_s)

    marks = {Mark.T0: 0.0, Mark.T1: 0.5, Mark.T4: 0.5, Mark.T5: 12.0, Mark.T6: 17.0, Mark.T8: 20.0, Mark.T9: 20.0}
    return StartRecord(
        id=start_id,
        service=service,
        replica=f"{service}/0",
        kind=contract.StartKind.CACHED_NODE,
        marks={mark: NOW + seconds(offset) for mark, offset in marks.items()},
        stages=(
            stage(Stage.ORDER, 0.0, 0.5),
            stage(Stage.IMPORTS_API, 0.5, 8.0),
            stage(Stage.IMPORTS_CORE, 4.5, 5.0),
            stage(Stage.WEIGHT_LOAD, 10.0, 2.0, 1.95),
            stage(Stage.COMPILE, 12.0, 5.0, 3.0),
            stage(Stage.GOLDEN_PROMPT, 17.5, 2.5),
        ),
        outcome="ready",
        ready_s=20.0,
        attributed=0.95,
        model_digest="sha256:ab",
        why="1 waiting, 0 running",
    )


def failed_start(start_id: str = "local-6", service: str = "team-a/chat") -> StartRecord:
    """An engine that exited while it loaded."""
    failure = contract.Failure(
        cause=contract.FailureCause.EXITED,
        message="the engine exited with code 1 while loading weights: see engine.log",
        at=NOW + seconds(6),
        numbers={"code": 1},
    )
    whole = ready_start(start_id, service)
    return whole.model_copy(
        update={
            "marks": {Mark.T0: NOW, Mark.T4: NOW + seconds(0.5)},
            "stages": whole.stages[:1],
            "outcome": "failed",
            "failure": failure,
            "ready_s": None,
            "attributed": None,
        }
    )


@dataclass
class FakeController:
    """Answers from its fields; the test changes them."""

    statuses: dict[str, ServiceStatus] = field(
        default_factory=lambda: {each.service: each for each in (warm_service(), cold_service())}
    )
    records: list[StartRecord] = field(default_factory=lambda: [ready_start(), failed_start()])
    held: dict[str, HoldView] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    happened: list[EventView] = field(default_factory=list)
    missing: str | None = None

    def plan(self) -> PlanView:
        return PlanView(decided_at=NOW, next_at=NOW + seconds(60), services=tuple(self.services()))

    def services(self) -> list[ServiceStatus]:
        return [self.statuses[name] for name in sorted(self.statuses)]

    def service(self, service: ServiceId) -> ServiceStatus:
        self._known(service)
        return self.statuses[str(service)]

    def starts(self, service: ServiceId, limit: int) -> list[StartRecord]:
        self._known(service)
        return [record for record in self.records if record.service == str(service)][:limit]

    def start(self, start_id: str) -> StartRecord | None:
        return next((record for record in self.records if record.id == start_id), None)

    def preview(self, service: ServiceId, start: datetime | None, days: float) -> PreviewView:
        self._known(service)
        begin = start or NOW
        window = WindowView(
            asked_at=begin,
            ready_by=begin + seconds(44),
            until=begin + seconds(32444),
            local_ready_by="2026-11-30 09:00 CET",
            local_until="2026-11-30 18:00 CET",
            replicas=2,
            source="schedule office",
            dst=None,
        )
        moved = window.model_copy(update={"dst": "clocks go forward: 02:30 does not exist, moved to 03:00"})
        to = begin + timedelta(days=days)
        fields = {"from": begin, "to": to, "windows": (window, moved)}
        return PreviewView.model_validate({"service": str(service), "lead_time_s": 44.0, "warm_hours": 18.0, **fields})

    def holds(self) -> list[HoldView]:
        return list(self.held.values())

    async def add_hold(self, request: HoldRequest, idempotency_key: str | None) -> HoldView:
        self._known(ServiceId.parse(request.service))
        if request.replicas > 1:
            raise InvalidRequest(f"{request.replicas} replicas of at most 1: raise bounds.max, or ask for fewer")
        if idempotency_key is not None and idempotency_key in self.keys:
            return self.held[self.keys[idempotency_key]]
        hold = HoldView(
            id=f"h{len(self.held) + 1}",
            service=request.service,
            replicas=request.replicas,
            created_at=NOW,
            ready_by=request.ready_by,
            until=(request.ready_by or NOW) + seconds(request.for_s),
            reason=request.reason,
            state="active" if request.ready_by is None else "announced",
        )
        self.held[hold.id] = hold
        if idempotency_key is not None:
            self.keys[idempotency_key] = hold.id
        return hold

    async def release_hold(self, hold_id: str) -> bool:
        return self.held.pop(hold_id, None) is not None

    def events(self, after: int, limit: int) -> list[EventView]:
        if after < 0:
            after += len(self.happened)
        return [event for event in self.happened if event.seq > after][:limit]

    def ready(self) -> str | None:
        return self.missing

    async def metrics(self) -> str:
        return "pilotlight_portal_up 1.0\n"

    def _known(self, service: ServiceId) -> None:
        if str(service) not in self.statuses:
            raise UnknownService(f"no service {service}; there are: {', '.join(sorted(self.statuses))}")


def event(seq: int, text: str = "floor 0 → 1") -> EventView:
    """One event of the chat service."""
    return EventView(seq=seq, at=NOW + seconds(seq), service="team-a/chat", kind="floor", text=text, reason=REQUESTS)
