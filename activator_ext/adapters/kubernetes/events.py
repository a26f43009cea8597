"""Our reasons as Kubernetes Events: `kubectl describe` shows them at the object they are about.

What repeats is one Event that counts up, and is written when it is new, changed in words, or a while has passed: never
because a loop went round. An Event that cannot be written is lost and counted; nothing waits for it.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from activator_ext.adapters.kubernetes.client import MERGE_PATCH, Client
from activator_ext.adapters.kubernetes.faults import ApiFault, Refused
from activator_ext.adapters.kubernetes.resource import EVENTS, Key, Resource
from activator_ext.adapters.kubernetes.texts import instant_text

COMPONENT = "pilotlight"
# What the API server takes of a message.
MOST_MESSAGE_BYTES = 1024
# Events are kept an hour by default; what comes again within this is the same one.
SAME_FOR = timedelta(minutes=30)
# How often an Event that only repeats is written.
QUIET = timedelta(minutes=5)
# Different Events of one object within `QUIET`; more say nothing that the last did not.
MOST_PER_OBJECT = 20
# Events remembered and waiting at most.
MOST_KNOWN = 4096
MOST_WAITING = 256


@dataclass(frozen=True, slots=True)
class About:
    """The object that an Event is about."""

    resource: Resource
    key: Key
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """An Event that may repeat. `written_at`: when the API server was last told of it."""

    about: About
    reason: str
    warning: bool
    message: str
    first: datetime
    last: datetime
    count: int
    written_at: datetime
    name: str

    def body(self) -> dict[str, Any]:
        """The Event as the API server wants it."""
        resource, key = self.about.resource, self.about.key
        involved = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": key.name,
            "namespace": key.namespace,
        }
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": self.name, "namespace": key.namespace or "default"},
            "involvedObject": {**involved, **({"uid": self.about.uid} if self.about.uid else {})},
            "reason": self.reason,
            "type": "Warning" if self.warning else "Normal",
            "message": self.message,
            "count": self.count,
            "firstTimestamp": instant_text(self.first),
            "lastTimestamp": instant_text(self.last),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
        }


class Aggregator:
    """Decides which Events are written. Pure but for what it remembers: time is passed in."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[About, str, bool], Series] = OrderedDict()
        self._recent: OrderedDict[About, list[datetime]] = OrderedDict()

    def take(self, now: datetime, about: About, reason: str, message: str, *, warning: bool = False) -> Series | None:
        """Something happened; the Event to write for it, None where what stands there says it."""
        message = _cut(message)
        known = self._known.get((about, reason, warning))
        if known is None or now - known.last >= SAME_FOR:
            known = None
            name = _name(about, reason, now)
            series = Series(about, reason, warning, message, now, now, 1, now, name)
        else:
            series = replace(known, message=message, last=now, count=known.count + 1)
        due = known is None or message != known.message or now - known.written_at >= QUIET
        due = due and self._allowed(now, about)
        series = replace(series, written_at=now) if due else series
        self._known[about, reason, warning] = series
        self._known.move_to_end((about, reason, warning))
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return series if due else None

    def _allowed(self, now: datetime, about: About) -> bool:
        recent = [at for at in self._recent.pop(about, []) if now - at < QUIET]
        self._recent[about] = recent
        while len(self._recent) > MOST_KNOWN:
            self._recent.popitem(last=False)
        if len(recent) >= MOST_PER_OBJECT:
            return False
        recent.append(now)
        return True


class Events:
    """Writes Events in the background. One task runs `run`; `tell` never waits. `lost`: could not be written."""

    def __init__(self, client: Client, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.lost = 0
        self.trouble: str | None = None
        self._client = client
        self._clock = clock
        self._aggregator = Aggregator()
        # The latest of each Event: one that is written late is written once.
        self._waiting: OrderedDict[tuple[str, str], Series] = OrderedDict()
        self._wanted = asyncio.Event()

    def tell(self, about: About, reason: str, message: str, *, warning: bool = False) -> None:
        """Something of ours happened to this object. `reason`: CamelCase, as in Kubernetes' own Events."""
        series = self._aggregator.take(self._clock(), about, reason, message, warning=warning)
        if series is None:
            return
        self._waiting[about.key.namespace, series.name] = series
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popitem(last=False)
            self.lost += 1
        self._wanted.set()

    async def run(self) -> None:
        """Write what was told, one after the other, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while self._waiting:
                _, series = self._waiting.popitem(last=False)
                try:
                    await self._write(series)
                    self.trouble = None
                except ApiFault as fault:
                    self.lost += 1
                    self.trouble = str(fault)

    async def _write(self, series: Series) -> None:
        body = series.body()
        namespace = body["metadata"]["namespace"]
        if series.count > 1:
            changed = {name: body[name] for name in ("message", "count", "lastTimestamp")}
            try:
                path = EVENTS.path(namespace, series.name)
                await self._client.send("PATCH", path, changed, content_type=MERGE_PATCH)
            except Refused as refused:
                if not refused.missing:
                    raise
            else:
                return
        try:
            await self._client.send("POST", EVENTS.path(namespace), body)
        except Refused as refused:
            if not refused.conflict:  # there already: its answer was lost
                raise


def _name(about: About, reason: str, now: datetime) -> str:
    """Unique for this series: a name of an Event is the object's and something after it."""
    what = f"{about.resource}/{about.key}/{about.uid}/{reason}/{now.isoformat()}"
    return f"{about.key.name[:220]}.{hashlib.sha256(what.encode()).hexdigest()[:16]}"


def _cut(message: str) -> str:
    """Within what the API server takes, at a whole character."""
    encoded = message.encode()
    if len(encoded) <= MOST_MESSAGE_BYTES:
        return message
    return encoded[: MOST_MESSAGE_BYTES - 3].decode(errors="ignore") + "…"
