"""The portal's own metrics. Label values are bounded: known services and `other`, and the closed list of outcomes.

Counted in plain numbers, by the one thread that serves, and told to prometheus_client when somebody reads them: its own
counters take a lock each time, and cost a warm request a twentieth of all it costs.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from activator_ext.portal.loads import Loads
from activator_ext.portal.refusals import Outcome
from activator_ext.portal.table import Table

# From a warm engine's first byte (tens of ms) to the slowest start that a room waits for (15 min).
_BUCKETS_S = (0.01, 0.03, 0.1, 0.3, 1, 3, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900)
_BOUNDS = (*(str(float(bound)) for bound in _BUCKETS_S), "+Inf")


class _Durations:
    """One histogram's series."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(_BUCKETS_S, seconds)] += 1
        self.sum_s += seconds


class Metrics:
    """The metrics of one portal."""

    def __init__(self) -> None:
        self._waited: dict[tuple[str, ...], _Durations] = {}
        self._first_byte: dict[tuple[str, bool], _Durations] = {}
        self._ended: dict[tuple[str | None, Outcome], int] = {}

    def waited(self, service: str, seconds: float) -> None:
        """A request of a known service left the room."""
        self._waited.setdefault((service,), _Durations()).add(seconds)

    def first_byte(self, service: str, seconds: float, *, waited: bool) -> None:
        """The first byte of an answer's body came."""
        series = self._first_byte.get((service, waited))
        if series is None:
            series = self._first_byte[service, waited] = _Durations()
        series.add(seconds)

    def ended(self, service: str | None, outcome: Outcome) -> None:
        """A request ended; `service` None if it named no known one."""
        key = service, outcome
        self._ended[key] = self._ended.get(key, 0) + 1

    def forget(self, service: str) -> None:
        """Drop every series of a service that is gone."""
        for series in (self._waited, self._first_byte, self._ended):
            for key in [key for key in series if key[0] == service]:
                del series[key]  # type: ignore[arg-type]  # each is asked for its own keys only

    def render(self, loads: Loads, table: Table) -> bytes:
        """Prometheus text, with the gauges as they are now."""
        registry = CollectorRegistry()
        registry.register(_Reading(self.families(loads, table)))
        return generate_latest(registry)

    def families(self, loads: Loads, table: Table) -> Iterator[Metric]:
        """Every family with its series, as they are now."""
        yield _histogram(
            "pilotlight_portal_waiting_seconds",
            "How long requests waited, however it ended",
            ["service"],
            self._waited,
        )
        yield _histogram(
            "pilotlight_portal_first_byte_seconds",
            "From a request's arrival to the first byte of its answer's body",
            ["service", "waited"],
            {(service, "yes" if waited else "no"): each for (service, waited), each in self._first_byte.items()},
        )
        requests = CounterMetricFamily(
            "pilotlight_portal_requests",
            "Requests by how they ended; a retried one is counted under that too",
            labels=["service", "outcome"],
        )
        for (service, outcome), count in self._ended.items():
            requests.add_metric([service or "other", outcome.value], count)
        yield requests
        for name, what, count_of in (
            ("pilotlight_portal_waiting", "Requests waiting now", loads.room.waiting),
            ("pilotlight_portal_running", "Requests running now", loads.running),
        ):
            gauge = GaugeMetricFamily(name, what, labels=["service"])
            for service in sorted(table.routes.keys() | loads.active()):
                gauge.add_metric([service], count_of(service))
            yield gauge
        bytes_waiting = "pilotlight_portal_bytes_waiting", "Bytes of the bodies that wait now"
        yield GaugeMetricFamily(*bytes_waiting, value=loads.room.total_bytes)


class _Reading(Collector):
    """What one reader is told."""

    def __init__(self, families: Iterator[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> list[Metric]:
        """Called by the registry."""
        return self._families


def _histogram(name: str, what: str, labels: list[str], series: dict[tuple[str, ...], _Durations]) -> Metric:
    family = HistogramMetricFamily(name, what, labels=labels)
    for values, each in series.items():
        buckets = list(zip(_BOUNDS, map(float, accumulate(each.counts)), strict=True))
        family.add_metric(list(values), buckets, each.sum_s)
    return family
