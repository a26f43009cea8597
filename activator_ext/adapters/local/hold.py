"""The PrewarmHold object as users write it: a floor for one service, always with an end."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from activator_ext.adapters.local.durations import PositiveDuration, seconds
from activator_ext.adapters.local.findings import quoted
from activator_ext.adapters.local.metadata import Metadata
from activator_ext.adapters.local.policy import ServiceRef
from activator_ext.adapters.local.schema import Strict

LONGEST = timedelta(days=31)
"""Longest hold; the API of local mode takes none that is longer either."""
_DAY = (
    r"((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|[12][0-9]))"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
)
INSTANT = rf"[12][0-9]{{3}}-{_DAY}(\.[0-9]{{1,9}})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
"""RFC 3339 with seconds and zone, as Kubernetes writes instants."""
_INSTANT = re.compile(INSTANT, re.ASCII)
_FIX = "Write one like 2026-12-01T09:00:00+01:00."


def instant(text: str) -> datetime:
    """RFC 3339 → an instant in UTC, to the microsecond. Raises ValueError(message, fix)."""
    if not _INSTANT.fullmatch(text):
        raise ValueError(f"{quoted(text)} is not an instant", _FIX)
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{quoted(text)} is on no calendar", _FIX) from error


def _valid(text: str) -> str:
    instant(text)
    return text


Instant = Annotated[str, AfterValidator(_valid)]
"""Text of an instant; `instant` reads it."""


class HoldSpec(Strict):
    """What is asked for: replicas from `readyBy`, or from now, until `until`, or for so long."""

    service_ref: ServiceRef
    """The service; another one is another hold."""
    replicas: Annotated[int, Field(ge=1, le=10_000)] = 1
    """How many replicas are wanted warm."""
    ready_by: Instant | None = None
    """Warm by then, asked for a P95 lead time before; absent: asked for at once."""
    until: Instant | None = None
    """When it ends. This or for."""
    for_: Annotated[PositiveDuration | None, Field(alias="for")] = None
    """How long it lasts, from readyBy, else from its creation, as in 1h30m. This or until."""
    reason: Annotated[str, Field(max_length=256)] = ""
    """Why, for those who read it."""

    @model_validator(mode="after")
    def _sound(self) -> "HoldSpec":
        if (self.until is None) == (self.for_ is None):
            raise ValueError("set exactly one of until and for", "A hold always ends: write until or for.")
        begin = self.begin
        if self.until is not None and begin is not None and instant(self.until) <= begin:
            raise ValueError("until is not after readyBy", "Write a later until.", "until")
        if self.for_ is not None and seconds(self.for_) > LONGEST.total_seconds():
            raise ValueError(*too_long("for"))
        if begin is not None and self._end(begin) - begin > LONGEST:
            raise ValueError(*too_long("until"))
        return self

    @property
    def begin(self) -> datetime | None:
        """`readyBy` as an instant."""
        return None if self.ready_by is None else instant(self.ready_by)

    def end(self, created_at: datetime) -> datetime:
        """When the hold that was created then ends."""
        return self._end(self.begin or created_at)

    def _end(self, begin: datetime) -> datetime:
        if self.until is not None:
            return instant(self.until)
        return begin + timedelta(seconds=seconds(self.for_ or "0s"))


def too_long(key: str) -> tuple[str, str, str]:
    """Message, fix and key of a hold that lasts longer than any may."""
    return f"the hold is longer than {LONGEST.days} days", "Write an earlier end, or a schedule in a policy.", key


class PrewarmHold(Strict):
    """The whole object."""

    silent: ClassVar[frozenset[str]] = frozenset({"status"})
    api_version: Literal["pilotlight.dev/v1alpha1"]
    kind: Literal["PrewarmHold"]
    metadata: Metadata
    spec: HoldSpec
    """What is asked for."""
