"""The PrewarmPolicy object as users write it; its defaults are those of `activator_ext.core.model.Policy`."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from activator_ext.adapters.local.durations import Duration, PositiveDuration
from activator_ext.adapters.local.metadata import Metadata, RuntimeName
from activator_ext.adapters.local.schema import Strict
from activator_ext.core import model as core
from activator_ext.core import schedule as core_schedule

API_VERSION = "pilotlight.dev/v1alpha1"

Replicas = Annotated[int, Field(ge=0, le=10_000)]
Cron = Annotated[str, Field(max_length=256)]
_MONEY = re.compile(r"\d{1,9}(\.\d{1,2})? [A-Z]{3}", re.ASCII)


class ServiceRef(Strict):
    """The service that the policy is for, in the policy's own namespace."""

    kind: Literal["InferenceService", "LLMInferenceService"] = "InferenceService"
    """Kind of the service."""
    name: RuntimeName
    """Name of the service."""


class BoundsSpec(Strict):
    """The least and the most replicas; absent ones come from the InferenceService."""

    min: Replicas | None = None
    """Never fewer replicas than so many; absent: minReplicas, which KServe reads as 1 where it is absent too."""
    max: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Never more replicas than so many; absent: maxReplicas, else the larger of 1 and min."""

    @model_validator(mode="after")
    def _ordered(self) -> "BoundsSpec":
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is more than max {self.max}", "Raise max or lower min.")
        return self


def _money(text: str) -> str:
    if not _MONEY.fullmatch(text):
        raise ValueError("it is not an amount of money", "Write amount and currency, as in 300 EUR.")
    return text


class ObjectiveSpec(Strict):
    """What the user wants to reach, measured arrival → first token over `window`."""

    ready_ratio: Annotated[float, Field(gt=0, le=1)] = 0.99
    """Share of the requests that are to find the service warm."""
    first_token_seconds: Annotated[float, Field(gt=0)] | None = None
    """Seconds from arrival to first token that are wanted of them."""
    window: PositiveDuration = "28d"
    """Over how long it is measured, as in 28d."""
    monthly_budget: Annotated[str, AfterValidator(_money)] | None = None
    """Most that warmth may cost a month, amount and currency, as in 300 EUR."""


class ScheduleSpec(Strict):
    """A recurring window: warm by `readyBy` (or asked for at `start`), until `until`."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Its name, in reasons and events; each schedule of a policy has another."""
    time_zone: Annotated[str, Field(max_length=64)] = "UTC"
    """IANA name of the zone in which the expressions are meant, as in Europe/Madrid."""
    ready_by: Cron | None = None
    """Cron, five fields: warm by that minute, asked for a P95 lead time before. This or start."""
    start: Cron | None = None
    """Cron, five fields: asked for at that minute. This or readyBy."""
    until: Cron
    """Cron, five fields: its first firing after the window began ends the window."""
    replicas: Annotated[int, Field(ge=1, le=10_000)] = 1
    """How many replicas are wanted warm."""

    @model_validator(mode="after")
    def _sound(self) -> "ScheduleSpec":
        try:
            core_schedule.validate(self.parsed())
        except ValueError as error:
            raise ValueError(*self._finding(str(error))) from error
        return self

    def _finding(self, message: str) -> tuple[str, str, str]:
        """`schedule 'x': until '…': what is wrong; the fix` → message, fix and the key that it is about."""
        about, _, fix = message.removeprefix(f"schedule {self.name!r}: ").rpartition("; ")
        about, fix = (about, f"{fix[:1].upper()}{fix[1:]}") if about else (fix, "See the example policy")
        fix = fix if fix.endswith("?") else f"{fix}."
        key = about.split(" ", 1)[0]
        return about, fix, key if key in {"readyBy", "start", "until", "timeZone", "replicas"} else ""

    def parsed(self) -> core.Schedule:
        """The same as the core knows it."""
        return core.Schedule(
            name=self.name,
            time_zone=self.time_zone,
            ready_by=self.ready_by,
            start=self.start,
            until=self.until,
            replicas=self.replicas,
        )


class PrometheusSpec(Strict):
    """Where a cluster's queue signal is asked for."""

    server: str
    """Address of a Prometheus, as in http://prometheus:9090."""
    query: str
    """PromQL whose value is the number of requests waiting and running."""


class QueueSpec(Strict):
    """How many requests, waiting and running, one replica carries; absent: containerConcurrency, else 5."""

    target: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Requests that one replica is meant to carry; absent: containerConcurrency, else 5."""
    sources: list[Literal["knative", "engine", "portal"]] | None = None
    """Where the queue is looked for; absent: wherever there is one."""
    prometheus: PrometheusSpec | None = None
    """The queue as a query, in place of sources."""

    @model_validator(mode="after")
    def _one_source(self) -> "QueueSpec":
        if self.sources is not None and self.prometheus is not None:
            raise ValueError("sources and prometheus exclude each other", "Keep one of them.")
        return self


class GoldenSpec(Strict):
    """The prompt that proves an engine; `tokens` absent: learned from the first proven start of the same model."""

    prompt: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """The prompt; absent: one of Pilotlight's own."""
    max_tokens: Annotated[int, Field(ge=1, le=64)] = 8
    """How many tokens are asked for."""
    tokens: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | None = None
    """The answer at temperature 0; absent: learned from the first proven start of the same model."""

    @model_validator(mode="after")
    def _fits(self) -> "GoldenSpec":
        if self.tokens is not None and len(self.tokens) > self.max_tokens:
            fix = f"Write maxTokens: {min(len(self.tokens), 64)} or fewer tokens (at most 64)."
            raise ValueError(f"{len(self.tokens)} tokens are more than maxTokens {self.max_tokens}", fix)
        return self


class LeadTimeSpec(Strict):
    """`prior`: the lead time planned with before this service's own starts are known."""

    prior: PositiveDuration = "2m"
    """Lead time that is planned with until enough starts of this service were seen."""


class ForecastSpec(Strict):
    """Whether a forecast may raise the floor (Act) or is only recorded (Observe)."""

    mode: Literal["Observe", "Act"] = "Observe"
    """Observe: it is recorded only. Act: it raises the floor."""


class ParkingSpec(Strict):
    """Where an idle replica sleeps."""

    level: Literal["Auto", "L1", "L2", "None"] = "Auto"
    """How deep an idle replica sleeps; Auto: by cost."""
    pool: RuntimeName | None = None
    """Name of the pool of shared GPUs."""


class PolicySpec(Strict):
    """What is wanted of one service; every key is optional."""

    service_ref: ServiceRef | None = None
    """The service; only a policy named default has none: it is for each service of its namespace without one."""
    bounds: BoundsSpec = BoundsSpec()
    """The least and the most replicas, within minReplicas and maxReplicas."""
    objective: ObjectiveSpec | None = None
    """What is to be reached."""
    cold_start_cost: Duration = "10m"
    """Idle time that one cold start is worth: an idle replica is let go after so long, as in 10m."""
    schedules: list[ScheduleSpec] = Field(default_factory=list, max_length=100)
    """Recurring windows of warmth."""
    queue: QueueSpec = QueueSpec()
    """How many requests one replica carries, and where they are counted."""
    lead_time: LeadTimeSpec = LeadTimeSpec()
    """What a start is expected to take."""
    golden: GoldenSpec = GoldenSpec()
    """The prompt that proves an engine before it is given requests."""
    forecast: ForecastSpec | None = None
    """What a forecast of demand may do."""
    parking: ParkingSpec | None = None
    """Where idle replicas sleep."""

    @model_validator(mode="after")
    def _named_apart(self) -> "PolicySpec":
        names = [schedule.name for schedule in self.schedules]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two schedules are named '{name}'", "Give each schedule a name of its own.")
        return self


class PrewarmPolicy(Strict):
    """The whole object."""

    silent: ClassVar[frozenset[str]] = frozenset({"status"})
    api_version: Literal["pilotlight.dev/v1alpha1"]
    kind: Literal["PrewarmPolicy"]
    metadata: Metadata
    spec: PolicySpec = PolicySpec()
    """What is wanted."""


_THE_PORTAL = "The portal's own queue is the source in local mode; this takes effect in a cluster."
WITHOUT_EFFECT: Mapping[tuple[str, ...], str] = {
    ("spec", "objective"): "Nothing acts on it in local mode yet; it is checked only.",
    ("spec", "forecast"): "Nothing acts on it in local mode yet; it is checked only.",
    ("spec", "parking"): "Nothing parks in local mode yet: an idle replica is stopped.",
    ("spec", "queue", "sources"): _THE_PORTAL,
    ("spec", "queue", "prometheus"): _THE_PORTAL,
}
"""Keys that are validated and then not used, each with what happens instead: each gives a warning."""
