"""What the HTTP API answers: one model per resource, shared by the API, the CLI and the tests.

`--json` of every command prints exactly these. Words are the design's; durations in seconds, instants aware UTC.
"""

from datetime import datetime
from typing import Annotated, Literal, Protocol

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from activator_ext.core.model import DemandKind, ServiceId, StartKind, Warmth
from runtime.contract import Failure, Stage, StartRecord


class _View(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReasonView(_View):
    """A reason: its code, its numbers and the sentence they make."""

    code: str
    text: str
    numbers: dict[str, float | str] = Field(default_factory=dict)


class LeadTimeView(_View):
    """Lead time of one start kind. `samples` own floor → ready times; with few of them the prior still counts."""

    kind: StartKind
    p50_s: float
    p95_s: float
    samples: int


class DemandView(_View):
    """One demand behind a floor; `active` false: announced, not yet due."""

    kind: DemandKind
    replicas: int
    since: AwareDatetime
    until: AwareDatetime | None
    active: bool
    reason: ReasonView


class ReplicaStatus(_View):
    """One replica."""

    id: str
    warmth: Warmth
    since: AwareDatetime
    stage: Stage | None = None
    ready_at: AwareDatetime | None = None
    draining: bool = False
    pid: int | None = None
    url: str | None = None


class ServiceStatus(_View):
    """One service: how warm it is, what is wanted of it and why, and what comes next.

    `last_failure` stays until the next one, also at zero and through a restart of `up`; `retry_at`: until then nothing
    is tried again, and requests are answered with it.
    """

    service: str
    warmth: Warmth
    replicas: tuple[ReplicaStatus, ...]
    floor: int
    floor_until: AwareDatetime | None
    reason: ReasonView
    demands: tuple[DemandView, ...]
    waiting: int | None
    running: int | None
    stage: Stage | None
    eta_at: AwareDatetime | None
    next_warm_at: AwareDatetime | None
    lead_time_s: float
    lead_times: tuple[LeadTimeView, ...]
    last_failure: Failure | None
    retry_at: AwareDatetime | None = None
    last_start_id: str | None
    min: int
    max: int


_LONGEST_NAME = 63 + 1 + 253
"""Characters of `namespace/name`: a DNS label and a DNS name."""


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half a surrogate, which is no character") from None
    return text


def _no_number(value: object) -> object:
    if isinstance(value, int | float):
        raise ValueError("write an instant as text, such as 2026-12-01T09:00:00+01:00")
    return value


_Text = Annotated[str, AfterValidator(_encodable)]


class HoldRequest(_View):
    """Ask for a floor: ready by `ready_by` (null: as soon as possible), until `ready_by` or now plus `for_s`."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"service": "team-a/chat", "for_s": 3600, "replicas": 1, "reason": "demo for the board"}]
        },
    )

    service: _Text = Field(max_length=_LONGEST_NAME)
    for_s: float = Field(gt=0, le=31 * 86400, strict=True)
    replicas: int = Field(default=1, ge=1, le=10_000, strict=True)
    ready_by: Annotated[AwareDatetime, BeforeValidator(_no_number)] | None = None
    reason: _Text = Field(default="", max_length=256)


class HoldView(_View):
    """One hold, as asked and as it stands."""

    id: str
    service: str
    replicas: int
    created_at: AwareDatetime
    ready_by: AwareDatetime | None
    until: AwareDatetime
    reason: str
    state: Literal["announced", "active", "expired"]


class WindowView(_View):
    """One planned stretch of warmth. `dst` says what a clock change did to it, if anything."""

    asked_at: AwareDatetime
    ready_by: AwareDatetime
    until: AwareDatetime
    local_ready_by: str
    local_until: str
    replicas: int
    source: str
    dst: str | None = None


class PreviewView(_View):
    """When a service will be warm, by plan; requests come on top."""

    service: str
    from_: AwareDatetime = Field(alias="from", serialization_alias="from")
    to: AwareDatetime
    lead_time_s: float
    windows: tuple[WindowView, ...]
    warm_hours: float


class EventView(_View):
    """Something that happened, newest last. `seq` grows by one."""

    seq: int
    at: AwareDatetime
    service: str | None
    kind: str
    text: str
    reason: ReasonView | None = None


class PlanView(_View):
    """The last decision, whole."""

    decided_at: AwareDatetime
    next_at: AwareDatetime | None
    services: tuple[ServiceStatus, ...]


class UnknownService(Exception):
    """No such service; the message names the ones that exist."""


class InvalidRequest(Exception):
    """A request that cannot be carried out; the message says why and what to do."""


class ControllerFacade(Protocol):
    """What the API asks of the controller. Every method answers from memory or SQLite in well under a second."""

    def plan(self) -> PlanView:
        """The last decision."""

    def services(self) -> list[ServiceStatus]:
        """Every service, by name."""

    def service(self, service: ServiceId) -> ServiceStatus:
        """One service; raises UnknownService."""

    def starts(self, service: ServiceId, limit: int) -> list[StartRecord]:
        """Its newest starts first, the one under way included; raises UnknownService."""

    def start(self, start_id: str) -> StartRecord | None:
        """One start by id."""

    def preview(self, service: ServiceId, start: datetime | None, days: float) -> PreviewView:
        """When it will be warm, by plan; raises UnknownService."""

    def holds(self) -> list[HoldView]:
        """Every hold that has not expired, and those that expired in the last day."""

    async def add_hold(self, request: HoldRequest, idempotency_key: str | None) -> HoldView:
        """Record a hold and act on it; the same key gives the same hold. Raises UnknownService, InvalidRequest."""

    async def release_hold(self, hold_id: str) -> bool:
        """End a hold now; False if there is none."""

    def events(self, after: int, limit: int) -> list[EventView]:
        """Events with seq > after, oldest first."""

    def ready(self) -> str | None:
        """None when the loop has decided and host and portal are reachable, else what is missing."""

    async def metrics(self) -> str:
        """Prometheus text exposition of the controller, its portal's included."""
