"""Carries floors out on Knative Serving: watches what it needs, plans, writes, nudges.

Level-triggered and without memory that matters: what is held stands on the objects themselves. The InferenceService is
never touched, and no new Revision is made.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from activator_ext.adapters.knative.nudge import Nudger
from activator_ext.adapters.knative.objects import (
    INFERENCE_SERVICE,
    REVISION,
    Scaled,
    Scheme,
    replicas,
    routed,
    scaled,
)
from activator_ext.adapters.knative.plan import Finding, Plan, Seen, Stuck, Write, copies_min_scale, plan
from activator_ext.adapters.knative.versions import CRDS, REVISIONS_CRD, scheme_of
from activator_ext.adapters.knative.writes import read, write
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.faults import ApiFault, Refused
from activator_ext.adapters.kubernetes.patience import WatchPatience
from activator_ext.adapters.kubernetes.resource import (
    DEPLOYMENTS,
    KNATIVE_SERVICES,
    POD_AUTOSCALERS,
    REVISIONS,
    Key,
)
from activator_ext.adapters.kubernetes.watched import Watched
from activator_ext.core.model import ServiceId

# Writes at the same time: the API server's own limits slow down more.
AT_ONCE = 8
# A write whose object changed meanwhile is planned again so often.
TRIES = 4
# What failed is tried again so soon at the latest.
RETRY = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Done:
    """A write that was made at `at` by our clock."""

    write: Write
    at: datetime


@dataclass(frozen=True, slots=True)
class Report:
    """What a round did.

    `waits_for`: resources not listed yet; nothing was done. `faults`: what failed; the next round tries it again.
    `next_at`: when that is due if nothing happens.
    """

    done: tuple[Done, ...] = ()
    nudged: tuple[Key, ...] = ()
    findings: tuple[Finding, ...] = ()
    faults: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    next_at: datetime | None = None


class KnativeActuator:
    """Floors on one cluster's Knative. `run` keeps the watches; `carry_out` is one round, never two at once.

    `leading` is asked before each write: who is not the leader writes nothing. `changed` is called when a round may
    have something to do.
    """

    def __init__(
        self,
        client: Client,
        nudger: Nudger | None = None,
        *,
        namespace: str = "",
        leading: Callable[[], bool] = lambda: True,
        changed: Callable[[], None] = lambda: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        patience: WatchPatience | None = None,
    ) -> None:
        def watched(resource: Any, project: Any, selector: str) -> Watched[Any]:
            return Watched(
                client,
                resource,
                project,
                namespace=namespace,
                selector=selector,
                changed=lambda _: changed(),
                clock=clock,
                patience=patience,
            )

        self.services = watched(KNATIVE_SERVICES, routed, INFERENCE_SERVICE)
        self.revisions: Watched[Scaled] = watched(REVISIONS, scaled, INFERENCE_SERVICE)
        self.autoscalers: Watched[Scaled] = watched(POD_AUTOSCALERS, scaled, INFERENCE_SERVICE)
        self.deployments = watched(DEPLOYMENTS, replicas, f"{INFERENCE_SERVICE},{REVISION}")
        self.scheme: Scheme | None = None
        self._asked = False
        self._client = client
        self._nudger = nudger
        self._leading = leading
        self._clock = clock
        self._stuck: Mapping[Key, Stuck] = {}
        # What we wrote and its watch has not shown yet, with the version that it was written over.
        self._written: dict[tuple[Scheme, Key], tuple[str, Scaled]] = {}
        self._round = asyncio.Lock()

    @property
    def watches(self) -> tuple[Watched[Any], ...]:
        """Everything that is watched."""
        return self.services, self.revisions, self.autoscalers, self.deployments

    async def run(self) -> None:
        """Keep all watches, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for watched in self.watches:
                tasks.create_task(watched.run())

    async def wait_synced(self) -> None:
        """Until everything was listed once."""
        for watched in self.watches:
            await watched.wait_synced()

    async def carry_out(self, floors: Mapping[ServiceId, int]) -> Report:
        """Bring Knative to these floors; what we hold of any other service is given up.

        So `floors` must name every service with a floor, and not be called before all policies are known.
        """
        async with self._round:
            waits_for = tuple(str(watched.resource) for watched in self.watches if not watched.synced)
            if waits_for:
                return Report(waits_for=waits_for)
            now, seen = self._clock(), self._seen()
            scheme = await self._known_scheme(now, seen)
            planned = plan(now, floors, seen, scheme, self._stuck)
            self._stuck = planned.stuck
            return await self._act(planned, floors, seen, scheme)

    async def clear_all(self) -> Report:
        """Give up every floor, as by uninstalling: nothing of ours stays on any object."""
        return await self.carry_out({})

    def held(self) -> tuple[tuple[Scheme, Key], ...]:
        """Every object that has an entry of ours, as far as is known."""
        seen = self._seen()
        both = ((Scheme.REVISION, seen.revisions), (Scheme.POD_AUTOSCALER, seen.autoscalers))
        return tuple((scheme, key) for scheme, objects in both for key in sorted(objects) if objects[key].held)

    async def _act(self, planned: Plan, floors: Mapping[ServiceId, int], seen: Seen, scheme: Scheme) -> Report:
        done: list[Done] = []
        faults: list[str] = []
        gate = asyncio.Semaphore(AT_ONCE)

        async def make(what: Write) -> None:
            async with gate:
                try:
                    made = await self._write(what, floors, seen, scheme)
                except ApiFault as fault:
                    faults.append(str(fault))
                else:
                    done.extend(Done(each, self._clock()) for each in made)

        async with asyncio.TaskGroup() as tasks:
            for what in planned.writes:
                tasks.create_task(make(what))
        faults += self._nudge(planned.nudges)
        dues = [planned.next_at] if planned.next_at is not None else []
        dues += [self._clock() + RETRY] if faults else []
        next_at = min(dues, default=None)
        return Report(tuple(done), planned.nudges, planned.findings, tuple(faults), (), next_at)

    async def _write(
        self, what: Write, floors: Mapping[ServiceId, int], seen: Seen, scheme: Scheme
    ) -> tuple[Write, ...]:
        """Make it. Where its object changed meanwhile, read that and plan for it anew: maybe nothing is left to do."""
        for tried in range(1, TRIES + 1):
            if not self._leading():
                return ()
            try:
                written = await write(self._client, what)
            except Refused as refused:
                if tried == TRIES or not (refused.conflict or refused.missing):
                    raise
            else:
                self._remember(what, written)
                return (what,)
            seen = _with(seen, what, await read(self._client, what.target, what.scheme))
            again = plan(self._clock(), floors, seen, scheme, {}).writes
            left = [each for each in again if (each.scheme, each.target.key) == (what.scheme, what.target.key)]
            if not left:
                return ()
            what = left[0]
        raise AssertionError("unreachable")

    def _nudge(self, keys: Iterable[Key]) -> list[str]:
        """Begin these nudges; what became of earlier ones that failed."""
        if self._nudger is None or not self._leading():
            return []
        for key in keys:
            self._nudger.start(key)
        told = "{key} has no replicas although its min-scale wants some, and a nudge failed: {why}"
        return [told.format(key=key, why=why) for key, why in sorted(self._nudger.failed().items())]

    def _remember(self, what: Write, written: Mapping[str, Any] | None) -> None:
        now = scaled(written) if written is not None else None
        if now is not None:
            self._written[what.scheme, what.target.key] = what.target.version, now

    def _seen(self) -> Seen:
        return Seen(
            services=dict(self.services.objects),
            revisions=self._overlaid(Scheme.REVISION, self.revisions),
            autoscalers=self._overlaid(Scheme.POD_AUTOSCALER, self.autoscalers),
            replicas=dict(self.deployments.objects),
        )

    def _overlaid(self, scheme: Scheme, watched: Watched[Scaled]) -> dict[Key, Scaled]:
        """As watched, but what we wrote counts until the watch shows it."""
        objects = dict(watched.objects)
        for (kind, key), (over, written) in list(self._written.items()):
            if kind is not scheme:
                continue
            known = objects.get(key)
            if known is not None and known.version == over:
                objects[key] = written
            else:
                del self._written[kind, key]
        return objects

    async def _known_scheme(self, now: datetime, seen: Seen) -> Scheme:
        """What Knative says it is, else what it does; before it did anything, what all since 1.21 are."""
        if not self._asked:
            try:
                self.scheme = scheme_of(await self._client.get(CRDS.path(name=REVISIONS_CRD)))
                self._asked = True
            except Refused:
                self._asked = True  # not allowed to look: what it does will tell
            except ApiFault:
                self.scheme = None  # not now; asked again in the next round
        if self.scheme is None:
            copies = copies_min_scale(now, seen)
            if copies is not None:
                self.scheme = Scheme.REVISION if copies else Scheme.POD_AUTOSCALER
        return self.scheme or Scheme.REVISION


def _with(seen: Seen, what: Write, live: Scaled | None) -> Seen:
    """As `seen`, but for one object as it is now."""
    revisions = what.scheme is Scheme.REVISION
    objects = dict(seen.revisions if revisions else seen.autoscalers)
    if live is None:
        objects.pop(what.target.key, None)
    else:
        objects[what.target.key] = live
    return replace(seen, revisions=objects) if revisions else replace(seen, autoscalers=objects)
