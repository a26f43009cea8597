"""The portal's table: one route per service, told as a snapshot and then as deltas."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime

from activator_ext.adapters.local.manifests import LocalService
from activator_ext.core.model import ServiceId
from runtime.contract import (
    Endpoint,
    Failure,
    HostView,
    Mark,
    ReplicaView,
    Route,
    RouteDelta,
    RouteTable,
    ServiceView,
    StartRecord,
    Waiting,
    Warmth,
)


def build_routes(
    services: Mapping[ServiceId, LocalService],
    host: HostView | None,
    *,
    host_socket: str,
    etas: Mapping[ServiceId, datetime],
    created_at: Mapping[ServiceId, datetime],
) -> tuple[Route, ...]:
    """One route per service as it stands at the host (None: not reachable, so nothing can be served).

    `etas` tells when a start under way is expected to end.
    """
    views = {} if host is None else {view.service: view for view in host.services}
    return tuple(
        _route(service, views.get(str(name)), host_socket, etas.get(name), created_at[name])
        for name, service in sorted(services.items())
    )


def _route(
    service: LocalService, view: ServiceView | None, host_socket: str, eta_at: datetime | None, created_at: datetime
) -> Route:
    replicas = () if view is None else tuple(r for r in view.replicas if not r.draining)
    endpoints = tuple(Endpoint(replica=r.id, url=r.url) for r in replicas if r.warmth is Warmth.WARM and r.url)
    warming = [r for r in replicas if r.warmth is Warmth.WARMING]
    # A failure is the waiting client's answer only while nothing else can still answer it.
    failing = view is not None and view.retry_at is not None and not endpoints and not warming
    return Route(
        service=str(service.id),
        names=service.names,
        warmth=_warmth(endpoints, warming, failing),
        endpoints=endpoints,
        stage=warming[0].stage if warming and not endpoints else None,
        eta_at=eta_at if not endpoints else None,
        failure=_told(view.last_failure) if view is not None and failing else None,
        retry_at=view.retry_at if view is not None and failing else None,
        host_socket=host_socket,
        waiting=Waiting(timeout_s=service.spec.start_timeout_s),
        created_at=created_at,
    )


def _told(failure: Failure | None) -> Failure | None:
    """What a client is told: not the engine's log."""
    return None if failure is None else failure.model_copy(update={"tail": ()})


def _warmth(endpoints: tuple[Endpoint, ...], warming: list[ReplicaView], failing: bool) -> Warmth:
    if endpoints:
        return Warmth.WARM
    if warming:
        return Warmth.WARMING
    return Warmth.FAILED if failing else Warmth.COLD


def eta(record: StartRecord, *, p50_s: float, p95_s: float, now: datetime) -> datetime | None:
    """When a start under way is expected to end: by its P50 until that has passed, then by its P95, then unknown."""
    begun = record.marks.get(Mark.T0)
    if begun is None:
        return None
    for quantile_s in (p50_s, p95_s):
        expected = begun.timestamp() + quantile_s
        if expected > now.timestamp():
            return datetime.fromtimestamp(expected, tz=now.tzinfo)
    return None


class RouteFeed:
    """Holds the present table and tells each subscriber a snapshot, then every change."""

    def __init__(self) -> None:
        self._version = 0
        self._routes: dict[str, Route] = {}
        self._subscribers: set[asyncio.Queue[RouteDelta | None]] = set()

    def publish(self, routes: tuple[Route, ...]) -> None:
        """Make `routes` the table; nothing is sent where nothing changed."""
        table = {route.service: route for route in routes}
        changed = tuple(route for name, route in table.items() if self._routes.get(name) != route)
        removed = tuple(name for name in self._routes if name not in table)
        if not changed and not removed:
            return
        self._version += 1
        self._routes = table
        delta = RouteDelta(version=self._version, changed=changed, removed=removed)
        for queue in self._subscribers:
            queue.put_nowait(delta)

    def close(self) -> None:
        """End every subscription."""
        for queue in self._subscribers:
            queue.put_nowait(None)

    def table(self) -> RouteTable:
        """The present table."""
        return RouteTable(version=self._version, routes=tuple(self._routes.values()))

    async def subscribe(self) -> AsyncIterator[str]:
        """Server-sent events: one `snapshot`, then a `delta` for each change, until `close`."""
        queue: asyncio.Queue[RouteDelta | None] = asyncio.Queue()
        self._subscribers.add(queue)
        try:
            yield _event("snapshot", self.table().model_dump_json())
            while (delta := await queue.get()) is not None:
                yield _event("delta", delta.model_dump_json())
        finally:
            self._subscribers.discard(queue)


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
