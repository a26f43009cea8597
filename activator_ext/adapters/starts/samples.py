"""What a start in a cluster teaches: its lead time, and what `decide` is told of its service."""

from collections.abc import Iterable
from datetime import datetime

from activator_ext.adapters.starts.stories import ServiceStarts
from activator_ext.core.model import LeadSample, QueueView, ServiceObservation, StartKind
from runtime.contract import Mark, StartRecord


def lead_sample(record: StartRecord, asked_at: datetime | None = None) -> LeadSample | None:
    """The lead time of a start that is ready, from `asked_at` (a floor asked for before failed tries), else its T0.

    None where it has not become ready, or it is not known well enough when (`pod.teaches`).
    """
    if record.outcome != "ready" or (record.pod is not None and not record.pod.teaches):
        return None
    begun, ready = record.marks[Mark.T0], record.marks[Mark.T9]
    asked = begun if asked_at is None else min(asked_at, begun)
    return LeadSample(StartKind(record.kind.value), max((ready - asked).total_seconds(), 0.0), ready)


def observation(
    seen: ServiceStarts, queue: QueueView | None, samples: Iterable[LeadSample], known_kind: StartKind
) -> ServiceObservation:
    """What `decide` is told of a service. `known_kind`: its last start's, where no pod of it was seen yet."""
    return ServiceObservation(
        replicas=seen.replicas,
        queue=queue,
        next_kind=seen.next_kind or known_kind,
        lead_samples=tuple(samples),
    )
