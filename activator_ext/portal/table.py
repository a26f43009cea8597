"""The routing table: what the controller said, and which service a request means.

Pure and immutable: applying a snapshot or a delta gives a new table.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from runtime.contract import Endpoint, Route, RouteDelta, RouteTable


class VersionGap(Exception):
    """A delta does not follow the table's version."""


class UnknownName(Exception):
    """No service has this name."""


class AmbiguousName(Exception):
    """Several services have this name; `services` are their full names."""

    def __init__(self, services: tuple[str, ...]) -> None:
        super().__init__(", ".join(services))
        self.services = services


@dataclass(frozen=True, slots=True)
class Table:
    """Routes by service, and which services claim each name. `version` None: no snapshot was ever seen."""

    version: int | None = None
    routes: Mapping[str, Route] = field(default_factory=dict)
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: RouteTable) -> "Table":
        """The table that a snapshot describes, whatever was known before."""
        return _table(snapshot.version, snapshot.routes)

    def after(self, delta: RouteDelta) -> "Table":
        """This table with `delta` applied; raises VersionGap unless its version is the next one."""
        if self.version is None or delta.version != self.version + 1:
            raise VersionGap(f"delta {delta.version} does not follow table {self.version}")
        if not delta.removed and all(self._named_as(route) for route in delta.changed):
            # The usual one, of warmth and endpoints: who is meant by which name stays as it is.
            changed = {route.service: route for route in delta.changed}
            return replace(self, version=delta.version, routes={**self.routes, **changed})
        routes = {service: route for service, route in self.routes.items() if service not in delta.removed}
        routes.update((route.service, route) for route in delta.changed)
        return _table(delta.version, routes.values())

    def with_route(self, route: Route) -> "Table":
        """This table with one route replaced by what a host said; the version stays the controller's."""
        routes = {**self.routes, route.service: route}
        return replace(self, routes=routes) if self._named_as(route) else _table(self.version, routes.values())

    def by_model(self, name: str) -> Route:
        """The route that `name` means: full name, then a unique name, then a unique served name.

        Raises UnknownName, AmbiguousName.
        """
        route = self.routes.get(name)
        if route is not None:
            return route
        claimants = self.claims.get(name, ())
        if len(claimants) > 1:
            claimants = tuple(service for service in claimants if _short(service) == name) or claimants
        if not claimants:
            raise UnknownName(name)
        if len(claimants) > 1:
            raise AmbiguousName(self.claims[name])
        return self.routes[claimants[0]]

    def by_host(self, host: bytes) -> Route | None:
        """The route whose `name.namespace` are the first two labels of a Host header (port allowed)."""
        return self.routes.get(_of_host(host))

    def has(self, service: str, endpoint: Endpoint) -> bool:
        """Whether `endpoint` may still be given requests of `service`."""
        route = self.routes.get(service)
        return route is not None and endpoint in route.endpoints

    def names_of(self, route: Route) -> list[str]:
        """The names of `route` that mean it and no other, in its own order."""
        return [name for name in route.names if self._means(name, route)]

    def known_names(self, most: int = 20) -> str:
        """The services' full names for an error message, at most `most` of them."""
        services = sorted(self.routes)
        more = f" and {len(services) - most} more" if len(services) > most else ""
        return (", ".join(services[:most]) + more) or "none"

    def _named_as(self, route: Route) -> bool:
        """Whether a route of this service is here, and has the same names."""
        known = self.routes.get(route.service)
        return known is not None and known.names == route.names

    def _means(self, name: str, route: Route) -> bool:
        try:
            return self.by_model(name) is route
        except (UnknownName, AmbiguousName):
            return False


@lru_cache(maxsize=1024)
def _of_host(host: bytes) -> str:
    labels = host.decode("latin-1").rpartition("@")[2].partition(":")[0].lower().split(".")
    return f"{labels[1]}/{labels[0]}" if len(labels) >= 2 else ""


def _short(service: str) -> str:
    return service.partition("/")[2]


def _table(version: int | None, routes: Iterable[Route]) -> Table:
    by_service = {route.service: route for route in routes}
    claims: dict[str, list[str]] = {}
    for service in sorted(by_service):
        # A service's own name counts even where the controller left it out because it is not unique:
        # the answer then is "ambiguous", with the full names, and not "unknown".
        for name in {*by_service[service].names, _short(service)}:
            claims.setdefault(name, []).append(service)
    return Table(version, by_service, {name: tuple(services) for name, services in claims.items()})
