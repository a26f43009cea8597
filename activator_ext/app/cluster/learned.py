"""What the starts of a cluster's pods teach: lead times and records, each start once."""

from collections.abc import Iterable
from datetime import datetime

from activator_ext.adapters.history import History
from activator_ext.adapters.starts.samples import lead_sample
from activator_ext.adapters.starts.stories import settled
from activator_ext.core.model import LeadSample, ServiceId, StartKind
from runtime.contract import StartRecord

SAMPLES = 200
"""Newest lead samples of a service that are kept in memory; a plan uses 50 of each kind."""


class Learned:
    """Lead samples by service, first from the history. Raises HistoryError where that cannot be read or written."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._samples: dict[ServiceId, tuple[LeadSample, ...]] = {}
        self._noted: dict[str, StartRecord] = {}
        self._asked: dict[ServiceId, datetime] = {}

    def samples(self, service: ServiceId) -> tuple[LeadSample, ...]:
        """What is known of the service, any order."""
        if service not in self._samples:
            self._samples[service] = self._history.lead_samples(service)
        return self._samples[service]

    def last_kind(self, service: ServiceId) -> StartKind:
        """As the newest start that became ready began."""
        newest = max(self.samples(service), key=lambda sample: sample.ended_at, default=None)
        return StartKind.COLD_NODE if newest is None else newest.kind

    def asked(self, service: ServiceId, at: datetime | None) -> datetime | None:
        """More replicas than are ready are asked for at `at`, None: no more are; since when they have been."""
        if at is None:
            self._asked.pop(service, None)
            return None
        return self._asked.setdefault(service, at)

    def learn(self, service: ServiceId, starts: Iterable[StartRecord], now: datetime) -> tuple[StartRecord, ...]:
        """Keep each start that is over and was not known as it is; those that are new."""
        fresh = []
        for start in starts:
            if start.outcome is None or not settled(start, now) or self._noted.get(start.id) == start:
                continue
            known = self._noted.get(start.id) or self._history.start(start.id)
            self._history.record_start(start)
            self._noted[start.id] = start
            if known is None or known.outcome is None:
                fresh.append(start)
                self._sample(service, start)
        return tuple(fresh)

    def forget(self, service: ServiceId) -> None:
        """The service is gone; what it taught stays in the history."""
        self._samples.pop(service, None)
        self._asked.pop(service, None)
        self._noted = {key: start for key, start in self._noted.items() if start.service != str(service)}

    def _sample(self, service: ServiceId, start: StartRecord) -> None:
        sample = lead_sample(start, self._asked.pop(service, None) if start.outcome == "ready" else None)
        if sample is not None:
            before = self.samples(service)
            self._history.add_lead_sample(service, sample)
            self._samples[service] = (*before, sample)[-SAMPLES:]
