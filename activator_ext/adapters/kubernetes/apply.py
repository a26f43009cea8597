"""Server-side apply with our field manager: what is ours on an object, written and given up without a trace.

A field manager's entry in `metadata.managedFields` says which fields it wrote. Ours is a record that needs no
annotation and no memory: whoever reads the object sees what we hold on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from activator_ext.adapters.kubernetes.client import APPLY_PATCH, JSON_PATCH, Client
from activator_ext.adapters.kubernetes.faults import Refused
from activator_ext.adapters.kubernetes.resource import Json, Key, Resource

MANAGER = "pilotlight"
# What changed between a read and a write is read again so often at most.
TRIES = 5


@dataclass(frozen=True, slots=True)
class Owner:
    """A field manager that holds a field. `at`: when it last changed what it holds, None where it is not said.

    `maker`: it holds the object's spec too, as whoever creates an object does.
    """

    manager: str
    applied: bool
    maker: bool
    at: datetime | None


def owners(metadata: Json, path: Sequence[str]) -> tuple[Owner, ...]:
    """Who holds the field at `path`, such as ("metadata", "annotations", NAME); nobody where it is not there."""
    found = []
    for entry in metadata.get("managedFields") or ():
        fields = entry.get("fieldsV1") or {}
        if not entry.get("subresource") and _holds(fields, path):
            at = _instant(entry.get("time"))
            applied = entry.get("operation") == "Apply"
            found.append(Owner(str(entry.get("manager")), applied, _holds(fields, ("spec",)), at))
    return tuple(found)


async def apply(
    client: Client,
    resource: Resource,
    key: Key,
    fields: Mapping[str, Any],
    *,
    manager: str = MANAGER,
    uid: str | None = None,
    version: str | None = None,
    force: bool = False,
) -> Json:
    """Have `manager` hold exactly `fields` on the object; what it held else is given up, and goes if nobody holds it.

    `fields`: a partial object, its metadata without name. `uid`, `version`: of the object that this was decided on;
    with them nothing is written to, or created in place of, another one. Raises Unreachable, and Refused: `conflict`
    where the object changed meanwhile or another manager holds one of the fields (`force` takes it over).
    """
    metadata = {**fields.get("metadata", {}), "name": key.name}
    metadata |= {"namespace": key.namespace} if key.namespace else {}
    metadata |= {"uid": uid} if uid else {}
    metadata |= {"resourceVersion": version} if version else {}
    body = {**fields, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    params = {"fieldManager": manager, "force": "true" if force else "false"}
    path = resource.path(key.namespace, key.name)
    return await client.send("PATCH", path, body, content_type=APPLY_PATCH, params=params)


async def release(client: Client, resource: Resource, key: Key, manager: str = MANAGER) -> Json | None:
    """Strike `manager`'s entries out of the object's managed fields; all values stay. The object, None if it is gone.

    A field that nobody else holds stays then, held by nobody: what a field manager alone cannot do. Read and tried
    again where it changed meanwhile; raises Refused, Unreachable.
    """
    path = resource.path(key.namespace, key.name)
    for tried in range(1, TRIES + 1):
        try:
            live = await client.get(path)
            entries = live["metadata"].get("managedFields") or []
            ours = [index for index, entry in enumerate(entries) if entry.get("manager") == manager]
            if not ours:
                return live
            patch = [{"op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]}]
            patch += [{"op": "remove", "path": f"/metadata/managedFields/{index}"} for index in reversed(ours)]
            return await client.send("PATCH", path, patch, content_type=JSON_PATCH, params={"fieldManager": manager})
        except Refused as refused:
            if refused.missing:
                return None
            # 422: the test of the version failed.
            if tried == TRIES or not (refused.conflict or refused.status == 422):
                raise
    raise AssertionError("unreachable")


def _holds(fields: Mapping[str, Any], path: Sequence[str]) -> bool:
    for part in path:
        inner = fields.get(f"f:{part}")
        if not isinstance(inner, Mapping):
            return False
        fields = inner
    return True


def _instant(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
