"""What each finished start teaches: its record, its lead time, its golden answer."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Protocol

from activator_ext.adapters.history import History
from activator_ext.app.world import World
from activator_ext.core.model import LeadSample, ServiceId, StartKind
from activator_ext.core.patience import stuck_after_s
from runtime.contract import Failure, FailureCause, HostView, Mark, Stage, StartRecord

NEWEST_STARTS = 10
"""Starts that tell how long the next one may show no sign of life."""
_BY_THE_HOST = frozenset(
    {Stage.ORDER, Stage.MODEL_CHECK, Stage.CACHE_RESTORE, Stage.SNAPSHOT_RESTORE, Stage.FAILED_LOADER, Stage.FORK}
)


SAMPLES_KNOWN = 200
"""Newest lead samples of a service kept in memory, as many as the history gives at the start; a plan uses 50 a kind."""


class StartMetrics(Protocol):
    """The part of the metrics that starts feed."""

    def observe_start(self, record: StartRecord) -> None:
        """A start ended."""

    def observe_failure(self, service: str, cause: str) -> None:
        """A start failed, or an engine that was ready ended by itself."""


class Learner:
    """Takes each new view of the host and keeps what is worth remembering; seeing a view twice changes nothing."""

    def __init__(self, history: History, metrics: StartMetrics, say: Callable[[ServiceId, str, str], None]) -> None:
        self._history = history
        self._metrics = metrics
        self._say = say
        self._seen: dict[str, StartRecord] = {}
        self._asked: dict[ServiceId, datetime] = {}
        self._no_sample: set[str] = set()
        self._goldens: dict[str, dict[str, tuple[int, ...]]] = {}

    def goldens(self, prompt: str) -> dict[str, tuple[int, ...]]:
        """Every golden answer to this prompt, by golden key; read from the history once. Raises HistoryError."""
        if prompt not in self._goldens:
            self._goldens[prompt] = self._history.goldens(prompt)
        return self._goldens[prompt]

    def stuck_after_s(self, service: ServiceId) -> float:
        """How long its next start may show no sign of life. Raises HistoryError."""
        starts = self._history.starts(service, NEWEST_STARTS)
        return stuck_after_s([longest_stage_s(start) for start in starts if start.outcome == "ready"])

    def asked(self, service: ServiceId, at: datetime | None) -> None:
        """A floor above what is ready was asked for at `at` (the earliest counts); None: nothing is wanted any more."""
        if at is None:
            self._asked.pop(service, None)
        else:
            self._asked.setdefault(service, at)

    def clock_set(self, world: World) -> None:
        """The wall clock was set: what is under way has no length that could be learned."""
        self._asked.clear()
        running = () if world.host is None else world.host.starts
        self._no_sample = {start.id for start in running if start.outcome is None}

    def learn(self, world: World, view: HostView) -> None:
        """Remember every start of the view that has ended and was not known."""
        for start in view.starts:
            if self._seen.get(start.id) != start:
                self._note(world, start)
        self._seen = {start.id: start for start in view.starts}

    def host_lost(self, world: World, now: datetime, by: str) -> None:
        """Another host (`by`) is there in place of the one last seen: what that one started and kept has ended."""
        if world.host is None:
            return
        kept = {replica.start_id for service in world.host.services for replica in service.replicas}
        lost = Failure(
            cause=FailureCause.HOST_LOST,
            message=f"the host {world.host.host} ended, and its engines with it; {by} takes its place",
            at=now,
        )
        for start in world.host.starts:
            if start.outcome is None:
                self._note(world, start.model_copy(update={"outcome": "failed", "failure": lost}))
            elif start.outcome == "ready" and start.ended is None and start.id in kept:
                self._note(world, start.model_copy(update={"ended": lost}))

    def _note(self, world: World, start: StartRecord) -> None:
        before = self._seen.get(start.id)
        service = ServiceId.parse(start.service)
        if before is None and start.outcome is None:
            self._say(service, "start", f"{start.replica} starts ({start.kind}): {start.why}")
        if start.outcome is None:
            note = start.cache.note
            if note.startswith("waiting: ") and (before is None or before.cache.note != note):
                self._say(service, "start", f"{start.replica} is {note}")
            return
        known = before
        if known is None or known.outcome is None:
            known = self._history.start(start.id)
        fresh = known is None or known.outcome is None
        # Also when it is not fresh: the engine's spans reach the record a moment after it became ready.
        self._history.record_start(start)
        if service not in world.services:
            return
        if fresh:
            self._finished(world, service, start)
        if start.ended is not None and (known is None or known.ended is None):
            self._failed(world, service, start, start.ended)

    def _finished(self, world: World, service: ServiceId, start: StartRecord) -> None:
        self._metrics.observe_start(start)
        for text in loader_events(start):
            self._say(service, "loader", f"{start.replica}: {text}")
        if start.outcome == "failed" and start.failure is not None:
            self._failed(world, service, start, start.failure)
        if start.outcome == "recycled":
            self._say(service, "start", f"{start.replica} is begun anew: {start.cache.note}")
        if start.outcome != "ready":
            return
        self._say(service, "ready", f"{start.replica} ready after {start.ready_s or 0.0:.1f} s")
        if start.id in self._no_sample:
            self._no_sample.discard(start.id)
            self._asked.pop(service, None)
            self._golden(world, service, start)
            return
        self._lead_sample(world, service, start)
        self._golden(world, service, start)

    def _failed(self, world: World, service: ServiceId, start: StartRecord, failure: Failure) -> None:
        world.take_failure(service, failure)
        self._metrics.observe_failure(str(service), failure.cause.value)
        self._say(service, "failure", f"{start.replica}: {failure.message}")

    def _lead_sample(self, world: World, service: ServiceId, start: StartRecord) -> None:
        begun, ready = start.marks[Mark.T0], start.marks[Mark.T9]
        # A retry begins later than the floor was asked for; the plan needs the whole way, failures included.
        asked = min(self._asked.get(service, begun), begun)
        sample = LeadSample(
            kind=StartKind(start.kind.value), lead_s=max((ready - asked).total_seconds(), 0.0), ended_at=ready
        )
        self._history.add_lead_sample(service, sample)
        world.lead_samples[service] = (sample, *world.lead_samples.get(service, ()))[:SAMPLES_KNOWN]
        self._asked.pop(service, None)

    def _golden(self, world: World, service: ServiceId, start: StartRecord) -> None:
        golden = world.services[service].spec.golden
        key, tokens = start.golden_key, start.golden_tokens
        if golden.tokens is not None or key is None or tokens is None:
            return
        known = self.goldens(golden.prompt)
        # Also one that is known: the history forgets first what was proven longest ago.
        if next(reversed(known), None) != key:
            self._history.set_golden(key, golden.prompt, tokens)
            del self._goldens[golden.prompt]


def loader_events(start: StartRecord) -> Iterator[str]:
    """What is worth telling of how a start came by its weights: each way that failed, and what came next."""
    tries = start.weights.tries
    for tried, following in zip(tries, [*tries, None][1:], strict=True):
        if tried.failed is not None:
            after = f"{following.loader} from {following.source} was next" if following else "no other was left"
            yield f"the loader {tried.loader} from {tried.source} failed ({tried.failed}); {after}"
    if start.weights.fell_back:
        yield f"ModelExpress fell back: {start.weights.peer}"


def longest_stage_s(start: StartRecord) -> float:
    """The longest stage of the engine itself in seconds, 0 if none is known."""
    return max((stage.elapsed_ms / 1000 for stage in start.stages if stage.stage not in _BY_THE_HOST), default=0.0)
