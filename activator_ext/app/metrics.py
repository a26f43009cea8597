"""The controller's Prometheus metrics; `service` takes only names of services that exist, so series stay bounded."""

from collections import Counter as Tally
from collections import deque

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.parser import text_string_to_metric_families

from activator_ext.app.views import ServiceStatus
from activator_ext.core.model import Decision, Warmth
from runtime.contract import StartRecord

START_BUCKETS_S = (0.5, 1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200, 1800)
"""From a wake (under a second) to a new node that fetches a large model (half an hour, `start_timeout_s`)."""

STAGE_BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
"""From a health probe (milliseconds) to the weights of a large model."""

LATENESS_BUCKETS_S = (-600, -300, -120, -60, -30, -15, -5, 0, 1, 5, 15, 30, 60, 120, 300, 600)
"""Ready minus ready-by: below zero is early. The bucket `le="0"` counts those that kept their minute."""

IDLE_BUCKETS_S = (0, 1, 5, 15, 30, 60, 120, 300, 600, 1200, 3600)
"""Seconds warm before the minute that was asked for: the price of being on time."""

_COUNTED_STARTS = 4096
# Ids of finished starts already counted. A host shows each of its starts in every view, a few dozen at a time.


class Metrics:
    """Counts what the controller tells it, and renders it with the portal's own text."""

    def __init__(self, version: str) -> None:
        # A *_created series beside each counter would double the scrape for nothing.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it untyped
        self._registry = CollectorRegistry()
        self._counted: deque[str] = deque(maxlen=_COUNTED_STARTS)
        self._services: set[str] = set()
        start, stage = ("service", "kind"), ("service", "stage", "kind")
        self._start_seconds = self._histogram(
            "pilotlight_start_seconds", "T0 to T9 of starts that became ready.", start, START_BUCKETS_S
        )
        self._stage_seconds = self._histogram(
            "pilotlight_start_stage_seconds", "Stages of starts that became ready.", stage, STAGE_BUCKETS_S
        )
        self._lateness = self._histogram(
            "pilotlight_schedule_lateness_seconds",
            "Ready minus ready-by of schedules and holds; below zero is early, missed ones count until they were over.",
            ("service",),
            LATENESS_BUCKETS_S,
        )
        self._idle = self._histogram(
            "pilotlight_idle_before_ready_by_seconds", "Seconds warm before ready-by.", ("service",), IDLE_BUCKETS_S
        )
        outcome = ("service", "kind", "outcome", "cause")
        self._starts = Counter(
            "pilotlight_starts_total", "Starts that ended, by outcome and cause.", outcome, registry=self._registry
        )
        self._failures = Counter(
            "pilotlight_failures_total",
            "Starts that failed and ready engines that ended by themselves, by cause.",
            ("service", "cause"),
            registry=self._registry,
        )
        self._loaders = Counter(
            "pilotlight_loader_failures_total",
            "Ways to get the weights that failed in starts that ended, and ranks that ModelExpress gave other ones.",
            ("service", "loader", "source", "cause"),
            registry=self._registry,
        )
        self._minutes = Counter(
            "pilotlight_ready_by_total",
            "Announced minutes by how they were met: kept, late or missed.",
            ("service", "kind", "outcome"),
            registry=self._registry,
        )
        self._decisions = Counter(
            "pilotlight_decisions_total",
            "Changes of a floor, by reason.",
            ("service", "reason"),
            registry=self._registry,
        )
        self._floor = self._gauge("pilotlight_floor", "Warm replicas wanted now.", "service")
        self._warmth = self._gauge("pilotlight_warmth", "1 for the service's warmth, 0 else.", "service", "warmth")
        self._replicas = self._gauge("pilotlight_replicas", "Replicas by warmth.", "service", "warmth")
        self._portal_up = self._gauge("pilotlight_portal_up", "1 if the portal gave its metrics just now.")
        self._gauge("pilotlight_build_info", "Always 1.", "version").labels(version).set(1)

    def observe_start(self, record: StartRecord) -> None:
        """Count a start that ended, once however often it is told; one under way is left for later.

        Seconds and stages are of starts that became ready: a failed one is no sample of them.
        """
        if record.outcome is None or record.id in self._counted:
            return
        self._counted.append(record.id)
        service, kind = record.service, record.kind.value
        cause = "none" if record.failure is None else record.failure.cause.value
        self._starts.labels(service, kind, record.outcome, cause).inc()
        for tried in record.weights.tries:
            if tried.cause is not None:
                self._loaders.labels(service, tried.loader, tried.source, tried.cause.value).inc()
        if record.weights.fell_back:
            self._loaders.labels(service, "modelexpress", "peer", "fell-back").inc(record.weights.fell_back)
        if record.outcome != "ready":
            return
        if record.ready_s is not None:
            self._start_seconds.labels(service, kind).observe(record.ready_s)
        for stage in record.stages:
            self._stage_seconds.labels(service, stage.stage.value, kind).observe(stage.elapsed_ms / 1000)

    def observe_failure(self, service: str, cause: str) -> None:
        """Count a failed start, or a ready engine that ended by itself."""
        self._failures.labels(service, cause).inc()

    def observe_decision(self, decision: Decision, previous: Decision | None) -> None:
        """Count each floor whose number differs from the decision before; a service that is new had none, 0."""
        before = {} if previous is None else previous.services
        for service, decided in decision.services.items():
            was = before[service].floor.replicas if service in before else 0
            if decided.floor.replicas != was:
                self._decisions.labels(str(service), decided.floor.reason.code.value).inc()

    def observe_services(self, services: list[ServiceStatus]) -> None:
        """Set floors, warmths and replicas; services that are no longer among them lose all their series."""
        for status in services:
            self._floor.labels(status.service).set(status.floor)
            count = Tally(replica.warmth for replica in status.replicas)
            for warmth in Warmth:
                self._warmth.labels(status.service, warmth.value).set(float(status.warmth is warmth))
                self._replicas.labels(status.service, warmth.value).set(count[warmth])
        names = {status.service for status in services}
        for gone in self._services - names:
            self.forget(gone)
        self._services = names

    def observe_ready_by(self, service: str, kind: str, outcome: str, lateness_s: float) -> None:
        """A minute of a schedule or hold is judged: ready `lateness_s` after it, below zero before it.

        Of one that was missed it is how long after it the window or hold was over: it was at least that late.
        """
        self._minutes.labels(service, kind, outcome).inc()
        self._lateness.labels(service).observe(lateness_s)
        self._idle.labels(service).observe(max(0.0, -lateness_s))

    def forget(self, service: str) -> None:
        """Drop every series of a service that is gone."""
        for metric in (
            self._start_seconds,
            self._stage_seconds,
            self._lateness,
            self._minutes,
            self._idle,
            self._starts,
            self._failures,
            self._loaders,
            self._decisions,
            self._floor,
            self._warmth,
            self._replicas,
        ):
            metric.remove_by_labels({"service": service})

    def exposition(self, portal_text: str | None) -> str:
        """Everything as Prometheus text, the portal's after the controller's.

        None, or text that is not Prometheus text, or that names a metric of the controller (two of one name spoil the
        whole scrape), stands as `pilotlight_portal_up 0`.
        """
        joined = portal_text is not None and self._fits(portal_text)
        self._portal_up.set(float(joined))
        own = generate_latest(self._registry).decode()
        return f"{own}{portal_text}" if joined else own

    def _fits(self, portal_text: str) -> bool:
        own = {family.name for family in self._registry.collect()}
        try:
            return all(family.name not in own for family in text_string_to_metric_families(portal_text))
        except ValueError:
            return False

    def _histogram(self, name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, labels, registry=self._registry, buckets=buckets)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)
