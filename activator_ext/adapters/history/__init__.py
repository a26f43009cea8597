"""What Pilotlight remembers between runs, in one SQLite file: starts, lead times, holds, golden answers, events.

Losing the file costs precision (learned lead times, announced holds), nothing else.
"""

from activator_ext.adapters.history.rows import Minute, RecordedEvent, RecordedMinute
from activator_ext.adapters.history.schema import HistoryError, NewerHistoryError
from activator_ext.adapters.history.store import History, HoldConflictError

__all__ = [
    "History",
    "HistoryError",
    "HoldConflictError",
    "Minute",
    "NewerHistoryError",
    "RecordedEvent",
    "RecordedMinute",
]
