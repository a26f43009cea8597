"""Which values of a request's `model` mean which service.

The full name, then a unique name, then a unique served name.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from activator_ext.adapters.local.findings import Findings, quoted
from activator_ext.adapters.local.services import LocalService
from activator_ext.core.model import ServiceId


def unambiguous(services: Sequence[LocalService], findings: Findings) -> list[LocalService]:
    """The services with the names that mean them alone; a warning for each name that is left out."""
    owners: dict[str, list[ServiceId]] = defaultdict(list)
    for service in services:
        for name in service.names:
            owners[name].append(service.id)
    meant = {name: _owner(name, ids) for name, ids in owners.items()}
    kept: list[LocalService] = []
    for service in services:
        for name in service.names:
            if meant[name] != service.id:
                fix = f"Requests for this service name {service.id}."
                message = _taken(name, meant[name], owners[name], service.id)
                findings.warning(service.file, service.line, "metadata.name", message, fix)
        kept.append(replace(service, names=tuple(name for name in service.names if meant[name] == service.id)))
    return kept


def _taken(name: str, owner: ServiceId | None, owners: Sequence[ServiceId], service: ServiceId) -> str:
    if owner is not None:
        return f"the model name {quoted(name)} means {owner}"
    first = next(other for other in owners if other != service)
    more = f" (and {len(owners) - 2} more services')" if len(owners) > 2 else ""
    return f"the model name {quoted(name)} is {first}'s{more} too and means none of them"


def _owner(name: str, owners: Sequence[ServiceId]) -> ServiceId | None:
    """The service that `name` means, None if it could mean several. `owners`: all that are given it, none twice."""
    by_full_name = [owner for owner in owners if str(owner) == name]
    by_name = [owner for owner in owners if owner.name == name]
    candidates = by_full_name or by_name or owners
    return candidates[0] if len(candidates) == 1 else None
