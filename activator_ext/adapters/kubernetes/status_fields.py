"""`status` of our objects, field by field: what a controller writes there and `kubectl get` shows.

The CRDs' schema of it is made from these models. Durations and instants are text, as elsewhere in Kubernetes; every
instant is rounded to the second, and no number is here that changes while nothing happens: those are in the API and
in the metrics.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from activator_ext.core.model import ReasonCode, StartKind, Warmth

MOST_SERVICES = 100
"""Most services that a `default` policy's status lists; `serviceCount` counts all."""
CONDITIONS = ("Accepted", "Conflict", "Ready")
"""The types of our conditions."""


class Part(BaseModel):
    """Base of every part of a status: camelCase keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class ReasonStatus(Part):
    """Why the floor is what it is."""

    code: ReasonCode
    """One word for it."""
    text: str
    """The same as a sentence."""
    numbers: dict[str, str] = Field(default_factory=dict)
    """What the sentence was made of."""


class LeadTimeStatus(Part):
    """What is expected of one kind of start."""

    kind: StartKind
    """From where such a start begins."""
    p50: str
    """Half of them take no longer."""
    p95: str
    """Nineteen of twenty take no longer."""
    samples: Annotated[int, Field(ge=0)]
    """How many starts of this service it was learned from."""


class StartStatus(Part):
    """The newest start that has ended."""

    id: str
    """The same in the API and in `pilotlight starts`."""
    kind: StartKind
    """From where it began."""
    outcome: Literal["ready", "failed", "cancelled"]
    """How it ended."""
    began_time: str | None = None
    """When it was asked for (T0)."""
    took: str | None = None
    """From there until it was admitted to traffic (T9)."""


class FailureStatus(Part):
    """The newest failure; it stays when the replica is gone."""

    cause: str
    """One word for it; docs/reference/failures.md has them all."""
    message: str
    """What happened and what to do."""
    time: str
    """When."""


class ServiceStatus(Part):
    """One service of a `default` policy."""

    name: str
    """Its name."""
    warmth: Warmth
    """Its best replica's."""
    floor: Annotated[int, Field(ge=0)]
    """The least number of warm replicas wanted now."""
    reason: ReasonCode
    """Why."""


class Condition(Part):
    """As in every Kubernetes object."""

    type: Annotated[str, Field(max_length=316)]
    """Accepted: the object is valid and counts. Conflict: another one is for the same service. Ready: as warm as
    wanted."""
    status: Literal["True", "False", "Unknown"]
    """Whether it is so."""
    reason: Annotated[str, Field(min_length=1, max_length=1024)]
    """One word for why."""
    message: Annotated[str, Field(max_length=32768)]
    """The same as a sentence, with the fix where there is one."""
    observed_generation: Annotated[int, Field(ge=0)]
    """The metadata.generation that it was decided on."""
    last_transition_time: str
    """Since when the status is so."""


class PolicyStatus(Part):
    """`status` of a PrewarmPolicy. What is said of one service is absent where the policy is for several."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation that this status was decided on."""
    warmth: Warmth | None = None
    """The service's warmth: its best replica's."""
    ready_replicas: Annotated[int, Field(ge=0)] | None = None
    """How many replicas answer."""
    floor: Annotated[int, Field(ge=0)] | None = None
    """The least number of warm replicas wanted now."""
    floor_until: str | None = None
    """Until when; absent: open."""
    reason: ReasonStatus | None = None
    """Why."""
    next_warm_time: str | None = None
    """When it is next warm by plan; absent: nothing is planned."""
    lead_time: str | None = None
    """The lead time that is planned with: P95 of the kind that the next start would be."""
    lead_times: list[LeadTimeStatus] = Field(default_factory=list)
    """What was learned of this service's own starts, the slowest kind first."""
    last_start: StartStatus | None = None
    """The newest start that has ended."""
    last_failure: FailureStatus | None = None
    """The newest failure."""
    service_count: Annotated[int, Field(ge=0)] | None = None
    """For how many services the policy counts."""
    services: Annotated[list[ServiceStatus], Field(max_length=MOST_SERVICES)] = Field(default_factory=list)
    """The services of a `default` policy, by name, the first hundred."""
    conditions: list[Condition] = Field(default_factory=list)
    """Accepted, Conflict and Ready."""


class HoldStatus(Part):
    """`status` of a PrewarmHold."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation that this status was decided on."""
    state: Literal["Announced", "Active", "Expired", "Refused"] | None = None
    """Announced: its time is to come. Active: it counts. Expired: it is over. Refused: see conditions."""
    until: str | None = None
    """When it ends."""
    conditions: list[Condition] = Field(default_factory=list)
    """Accepted and Ready."""
