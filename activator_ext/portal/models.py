"""The list of models: each name that a request can ask for, those at zero included. Pure."""

from collections.abc import Iterable

from activator_ext.portal.refusals import Refused, ambiguous_model, unknown_model
from activator_ext.portal.table import AmbiguousName, Table, UnknownName
from runtime.contract import Route

PATH = "/v1/models"


def models(table: Table, only: Route | None = None) -> dict[str, object]:
    """What `GET /v1/models` says; `only`: that service's names."""
    routes: Iterable[Route] = [only] if only else [table.routes[service] for service in sorted(table.routes)]
    return {"object": "list", "data": [_model(name, route) for route in routes for name in table.names_of(route)]}


def model(name: str, table: Table) -> dict[str, object]:
    """What `GET /v1/models/NAME` says; raises Refused."""
    try:
        return _model(name, table.by_model(name))
    except UnknownName:
        raise Refused(unknown_model(name, table)) from None
    except AmbiguousName as several:
        raise Refused(ambiguous_model(name, several.services)) from None


def _model(name: str, route: Route) -> dict[str, object]:
    return {
        "id": name,
        "object": "model",
        "created": int(route.created_at.timestamp()),
        "owned_by": "pilotlight",
        "pilotlight": {"service": route.service, "warmth": route.warmth.value},
    }
