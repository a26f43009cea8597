"""Everything of one resource, kept up to date by list and watch; of each object only what a projection keeps.

Level-triggered: who reads `objects` sees the last known state, whatever was missed. When the API server is gone the
last state stays, `trouble` says since when and why, and the watch goes on by itself when it is back. An edit that
changes nothing of what is kept calls nobody.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.faults import ApiFault, Refused, Silent, Unreachable
from activator_ext.adapters.kubernetes.messages import change, lines, page, value
from activator_ext.adapters.kubernetes.patience import WatchPatience
from activator_ext.adapters.kubernetes.resource import Json, Key, Resource

T = TypeVar("T")

# One page of a list: a few MiB, whatever the resource.
PAGE = 250
# A watch that ends sooner than this without a word was no watch.
SHORT_S = 1.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """The API server does not answer as it should since `since`; `text` is its last word."""

    since: datetime
    text: str
    missing: bool = False
    """The resource itself does not exist: its CRD is not installed."""


class Watched(Generic[T]):
    """The objects of one resource that `project` keeps (None: not kept). One task runs `run`; reading never waits.

    `changed` is called on the event loop with each key whose projection changed, appeared or went, after `objects` has
    it; whoever wants the whole looks at `objects`. `selector`: a label selector.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        project: Callable[[Json], T | None],
        *,
        namespace: str = "",
        selector: str = "",
        fields: str = "",
        changed: Callable[[Key], None] = lambda _: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        patience: WatchPatience | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.resource = resource
        self.trouble: Trouble | None = None
        self.seen_at: datetime | None = None
        self.unreadable: dict[Key, str] = {}
        self._client = client
        self._project = project
        self._path = resource.path(namespace)
        self._place = f"{resource} at {client.server}"
        self._params = {"labelSelector": selector} if selector else {}
        self._params |= {"fieldSelector": fields} if fields else {}
        self._changed = changed
        self._clock = clock
        self._patience = patience or WatchPatience()
        self._chance = chance
        self._objects: dict[Key, T] = {}
        self._version = ""
        self._failures = 0
        self._synced = asyncio.Event()

    @property
    def objects(self) -> Mapping[Key, T]:
        """What is kept, as last known; empty before the first list. A live view: copy it to keep it."""
        return MappingProxyType(self._objects)

    @property
    def synced(self) -> bool:
        """Whether a whole list was ever received. Before, absent does not mean that there is none."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Until the first list is in."""
        await self._synced.wait()

    async def run(self) -> None:
        """List, watch, and begin again whatever happens, until cancelled."""
        listed_at = 0.0
        loop = asyncio.get_running_loop()
        while True:
            try:
                if not self._version or loop.time() - listed_at >= self._patience.relist_s:
                    await self._list()
                    listed_at = loop.time()
                await self._watch()
            except Silent as silent:
                # A watch may be quiet for long. If it stood, beginning it again shows whether anyone is there.
                if self.trouble is not None or self._failures:
                    await self._pause(silent)
            except Refused as refused:
                if refused.gone and self._failures == 0:
                    # The version was too old: no fault of anyone. If the next list is refused so too, it is one.
                    self._version, self._failures = "", 1
                    continue
                if refused.gone:
                    self._version = ""
                await self._pause(refused)
            except ApiFault as fault:
                await self._pause(fault)

    async def _pause(self, fault: ApiFault) -> None:
        """Tell the trouble, and wait before the next try."""
        self._failures += 1
        since = self.trouble.since if self.trouble is not None else self._clock()
        missing = isinstance(fault, Refused) and fault.missing
        self.trouble = Trouble(since, str(fault), missing)
        asked_s = fault.retry_after_s if isinstance(fault, Refused) and fault.retry_after_s else 0.0
        await asyncio.sleep(max(self._patience.pause_s(self._failures, self._chance()), min(asked_s, 60.0)))

    def _heard(self) -> None:
        self.seen_at = self._clock()
        self.trouble = None

    async def _list(self) -> None:
        """Everything anew, page by page; what is not in it is gone."""
        found: dict[Key, T] = {}
        unreadable: dict[Key, str] = {}
        params = {**self._params, "limit": str(PAGE)}
        while True:
            got = page(self._place, await self._client.get_bytes(self._path, params))
            for raw in got.items or ():
                self._keep(value(self._place, raw), found, unreadable)
            self.seen_at = self._clock()
            if not got.metadata.continue_:
                break
            params["continue"] = got.metadata.continue_
        if not got.metadata.resource_version:
            raise Unreachable(f"{self._place}: a list without a version")
        before, self._objects, self.unreadable = self._objects, found, unreadable
        self._version = got.metadata.resource_version
        self._heard()
        self._synced.set()
        for key in before.keys() | found.keys():
            if before.get(key) != found.get(key):
                self._changed(key)

    def _keep(self, seen: dict[str, Any], objects: dict[Key, T], unreadable: dict[Key, str]) -> Key:
        """Put the projection of `seen` among `objects`; where it cannot be read, what was known of it stays."""
        metadata = seen["metadata"]
        key = Key(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
        unreadable.pop(key, None)
        try:
            kept = self._project(seen)
        except Exception as error:  # one strange object must not stop the watch of all others; it is told
            unreadable[key] = f"{type(error).__name__}: {error}"
            known = self._objects.get(key)
            if known is not None:
                objects[key] = known
            return key
        if kept is None:
            objects.pop(key, None)
        else:
            objects[key] = kept
        return key

    async def _watch(self) -> None:
        """Changes from the known version on, until the API server ends it."""
        life_s = max(1, round(self._patience.life_s * (1 - self._chance() / 4)))
        params = {
            **self._params,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(life_s),
        }
        loop = asyncio.get_running_loop()
        begun = loop.time()
        heard = False
        async with self._client.stream(self._path, params, silence_s=self._patience.silence_s) as content:
            self._heard()
            async for line in lines(self._place, content):
                self._take(line)
                self._heard()
                self._failures, heard = 0, True
        if not heard and loop.time() - begun < SHORT_S:
            raise Unreachable(f"{self._place}: the watch ended at once")
        self._failures = 0

    def _take(self, line: bytes) -> None:
        told = change(self._place, line)
        seen = value(self._place, told.object)
        version = seen["metadata"].get("resourceVersion")
        if told.type in ("ADDED", "MODIFIED", "DELETED"):
            self._take_object(told.type, seen)
        elif told.type != "BOOKMARK":
            raise Unreachable(f"{self._place}: an event of the unknown type {told.type!r}")
        if isinstance(version, str) and version:
            self._version = version

    def _take_object(self, kind: str, seen: dict[str, Any]) -> None:
        metadata = seen["metadata"]
        key = Key(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
        before = self._objects.get(key)
        if kind == "DELETED":
            self._objects.pop(key, None)
            self.unreadable.pop(key, None)
        else:
            self._keep(seen, self._objects, self.unreadable)
        if self._objects.get(key) != before:
            self._changed(key)
