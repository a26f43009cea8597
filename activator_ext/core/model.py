"""The words of Pilotlight as types: what is observed, what is wanted, what is decided and why.

Every value here is frozen, compares by content and holds no behaviour beyond rendering itself.
Instants are aware datetimes in UTC; durations carry their unit in the name (`_s`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType


class Warmth(StrEnum):
    """How ready a replica is to answer; a service's warmth is its best replica's."""

    COLD = "cold"
    PARKED_L2 = "parked-l2"
    PARKED_L1 = "parked-l1"
    WARMING = "warming"
    WARM = "warm"
    BUSY = "busy"
    FAILED = "failed"
    UNKNOWN = "unknown"


class DemandKind(StrEnum):
    """Why a floor is wanted."""

    QUEUE = "queue"
    SCHEDULE = "schedule"
    FORECAST = "forecast"
    HOLD = "hold"


class StartKind(StrEnum):
    """From where a start begins; lead times are learned for each kind apart."""

    NEW_NODE = "new-node"
    COLD_NODE = "cold-node"
    CACHED_NODE = "cached-node"
    FORK = "fork"
    SNAPSHOT = "snapshot"
    WAKE_L2 = "wake-l2"
    WAKE_L1 = "wake-l1"


class ReasonCode(StrEnum):
    """Each cause that a decision can have; `Reason.text` renders it with its numbers."""

    NO_DEMAND = "no-demand"
    REQUESTS = "requests"
    IDLE_KEEP = "idle-keep"
    QUEUE_UNKNOWN = "queue-unknown"
    SCHEDULE_READY_BY = "schedule-ready-by"
    SCHEDULE_WINDOW = "schedule-window"
    HOLD_READY_BY = "hold-ready-by"
    HOLD_ACTIVE = "hold-active"
    BOUNDS_MIN = "bounds-min"
    BOUNDS_MAX = "bounds-max"
    LOADING_LEASE = "loading-lease"


_TEXTS: Mapping[ReasonCode, str] = MappingProxyType(
    {
        ReasonCode.NO_DEMAND: "nothing wants it",
        ReasonCode.REQUESTS: "{waiting} waiting, {running} running",
        ReasonCode.IDLE_KEEP: "idle for {idle_s:.0f} s of the {keep_s:.0f} s that one cold start is worth",
        ReasonCode.QUEUE_UNKNOWN: "the queue cannot be seen; the last floor stays until it expires",
        ReasonCode.SCHEDULE_READY_BY: "schedule {name}: ready by {ready_by}; a start takes {lead_s:.0f} s (P95)",
        ReasonCode.SCHEDULE_WINDOW: "schedule {name} until {until}",
        ReasonCode.HOLD_READY_BY: "hold {hold}: ready by {ready_by}; a start takes {lead_s:.0f} s (P95)",
        ReasonCode.HOLD_ACTIVE: "hold {hold} until {until}",
        ReasonCode.BOUNDS_MIN: "never fewer than bounds.min {min}",
        ReasonCode.BOUNDS_MAX: "{wanted} wanted, never more than bounds.max {max}",
        ReasonCode.LOADING_LEASE: "{warming} starting: a start under way is never stopped for lack of demand",
    }
)


@dataclass(frozen=True, slots=True)
class Reason:
    """One cause with its numbers: the same object in status, event, log, metric and API."""

    code: ReasonCode
    numbers: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The reason as a sentence without a full stop."""
        return _TEXTS[self.code].format(**self.numbers)


@dataclass(frozen=True, slots=True, order=True)
class ServiceId:
    """`namespace/name` of one InferenceService."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: str, *, default_namespace: str = "default") -> "ServiceId":
        """Read `namespace/name` or a bare `name`; raises ValueError on anything else."""
        namespace, slash, name = text.partition("/")
        if not slash:
            namespace, name = default_namespace, text
        if not namespace or not name or "/" in name:
            raise ValueError(f"{text!r} is not a service: write NAME or NAMESPACE/NAME")
        return cls(namespace, name)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most replicas, whatever the demand. 0 ≤ min ≤ max."""

    min: int = 0
    max: int = 1


@dataclass(frozen=True, slots=True)
class Schedule:
    """A recurring window in which `replicas` are wanted warm.

    Exactly one of `ready_by` (warm *by* that minute) and `start` (asked for *at* that minute) is set.
    `ready_by`, `start` and `until` are cron expressions of exactly five fields in the IANA zone `time_zone`.
    """

    name: str
    time_zone: str
    until: str
    ready_by: str | None = None
    start: str | None = None
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """How many requests (waiting and running) one replica is meant to carry. target ≥ 1."""

    target: int = 5


@dataclass(frozen=True, slots=True)
class Policy:
    """What a PrewarmPolicy says of one service, parsed.

    `cold_start_cost_s` is B of the ski rental: how many idle seconds one cold start is worth; a replica is let go
    after B seconds of not being needed. `prior_lead_s` is the lead time assumed before this service's own starts
    are known.
    """

    bounds: Bounds = Bounds()
    schedules: tuple[Schedule, ...] = ()
    queue: QueuePolicy = QueuePolicy()
    cold_start_cost_s: float = 600.0
    prior_lead_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Hold:
    """A floor asked for by API or CLI, always with an expiry.

    `ready_by` None means as soon as possible. The hold's window is [ready_by or created_at, until).
    """

    id: str
    service: ServiceId
    replicas: int
    created_at: datetime
    until: datetime
    ready_by: datetime | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class LeadSample:
    """One floor → ready interval of a service's own starts, failures and retries included.

    `lead_s` ≥ 0; `ended_at` orders samples, the newest count.
    """

    kind: StartKind
    lead_s: float
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica as its host reports it. `ready_at` is T9 of the running start, None before."""

    id: str
    warmth: Warmth
    since: datetime
    ready_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class QueueView:
    """Requests of one service at the portal, at `seen_at`.

    `last_activity_at` is the latest instant at which a request was waiting or running; None if none ever was.
    """

    seen_at: datetime
    waiting: int = 0
    running: int = 0
    last_activity_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ServiceObservation:
    """What is known of one service now.

    `queue` None: unknown, which is not zero. `next_kind`: how the next start would begin; `lead_samples`: its own
    past floor → ready times, any order.
    """

    replicas: tuple[ReplicaView, ...] = ()
    queue: QueueView | None = None
    next_kind: StartKind = StartKind.COLD_NODE
    lead_samples: tuple[LeadSample, ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """The world at one instant, as far as it is known."""

    services: Mapping[ServiceId, ServiceObservation]
    holds: tuple[Hold, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """What the user wants: one policy for each service that exists."""

    services: Mapping[ServiceId, Policy]


@dataclass(frozen=True, slots=True)
class Demand:
    """One reason to keep `replicas` warm from `since` (the moment to ask) until `until` (None: open).

    `ready_by` is the announced minute of a schedule or hold, None where there is none.
    """

    kind: DemandKind
    replicas: int
    since: datetime
    until: datetime | None
    reason: Reason
    ready_by: datetime | None = None


@dataclass(frozen=True, slots=True)
class Floor:
    """The least number of warm replicas wanted now, until when (None: open) and why."""

    replicas: int
    until: datetime | None
    reason: Reason
    demand: DemandKind | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A schedule's window or a hold that was asked for at `since`, ahead of its `ready_by`.

    Remembered until `ready_by`, so that a lead time that shrinks meanwhile does not take the request back.
    """

    kind: DemandKind
    name: str
    ready_by: datetime
    since: datetime


@dataclass(frozen=True, slots=True)
class ServiceState:
    """What `decide` remembers of one service between calls.

    `last_needed[i]` is the latest instant at which requests needed replica i + 1, or at which it became ready for
    them; never longer than bounds.max. `awaited`: requests needed that many replicas before as many were ready
    (0: none is awaited); only then does becoming ready count as being needed.
    """

    floor: Floor
    last_needed: tuple[datetime, ...] = ()
    awaited: int = 0
    asked: tuple[Asked, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """What `decide` hands to its next call."""

    services: Mapping[ServiceId, ServiceState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SetFloor:
    """Effect: have at least `replicas` warm. Emitted whenever the floor's number changed."""

    service: ServiceId
    replicas: int
    until: datetime | None
    reason: Reason


Action = SetFloor
"""Every effect that a decision can ask for; parking adds its own beside `SetFloor`."""


@dataclass(frozen=True, slots=True)
class ServiceDecision:
    """Floor, every demand behind it (the strongest first), and when the next announced warmth is due.

    `next_warm_at` is when it will next be ready by plan (a schedule or hold to come), None if nothing is planned.
    `lead_s` is the lead time planned with.
    """

    floor: Floor
    demands: tuple[Demand, ...]
    next_warm_at: datetime | None
    lead_s: float


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, what to remember, why, and when to ask again if nothing happens (None: never)."""

    actions: tuple[Action, ...]
    state: State
    services: Mapping[ServiceId, ServiceDecision]
    next_at: datetime | None
