"""The portal's own metrics. Label values are bounded: known services and `other`, and the closed list of outcomes."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from activator_ext.portal.loads import Loads
from activator_ext.portal.refusals import Outcome
from activator_ext.portal.table import Table

# From a warm engine's first byte (tens of ms) to the slowest start that a room waits for (15 min).
_BUCKETS_S = (0.01, 0.03, 0.1, 0.3, 1, 3, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900)


class Metrics:
    """One registry for one portal."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._waited = Histogram(
            "pilotlight_portal_waiting_seconds",
            "How long requests waited, however it ended",
            ["service"],
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._first_byte = Histogram(
            "pilotlight_portal_first_byte_seconds",
            "From a request's arrival to the first byte of its answer's body",
            ["service", "waited"],
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._requests = Counter(
            "pilotlight_portal_requests",
            "Requests by how they ended; a retried one is counted under that too",
            ["service", "outcome"],
            registry=self._registry,
        )
        self._waiting = Gauge("pilotlight_portal_waiting", "Requests waiting now", ["service"], registry=self._registry)
        self._running = Gauge("pilotlight_portal_running", "Requests running now", ["service"], registry=self._registry)
        self._bytes = Gauge(
            "pilotlight_portal_bytes_waiting", "Bytes of the bodies that wait now", registry=self._registry
        )

    def waited(self, service: str, seconds: float) -> None:
        """A request of a known service left the room."""
        self._waited.labels(service).observe(seconds)

    def first_byte(self, service: str, seconds: float, *, waited: bool) -> None:
        """The first byte of an answer's body came."""
        self._first_byte.labels(service, "yes" if waited else "no").observe(seconds)

    def ended(self, service: str | None, outcome: Outcome) -> None:
        """A request ended; `service` None if it named no known one."""
        self._requests.labels(service or "other", outcome.value).inc()

    def render(self, loads: Loads, table: Table) -> bytes:
        """Prometheus text, with the gauges as they are now."""
        for gauge, count in ((self._waiting, loads.room.waiting), (self._running, loads.running)):
            gauge.clear()
            for service in table.routes.keys() | loads.active():
                gauge.labels(service).set(count(service))
        self._bytes.set(loads.room.total_bytes)
        return generate_latest(self._registry)
