import json
from copy import deepcopy
from typing import Any, cast

import pytest

from activator_ext.adapters.kubernetes.apply import TRIES, apply, owners, release
from activator_ext.adapters.kubernetes.client import APPLY_PATCH, JSON_PATCH, Client
from activator_ext.adapters.kubernetes.faults import Refused
from activator_ext.adapters.kubernetes.resource import REVISIONS, Key

KEY = Key("team-a", "r1")
PATH = "/apis/serving.knative.dev/v1/namespaces/team-a/revisions/r1"
MIN = ("metadata", "annotations", "min")


def entry(manager: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "time": "2026-11-30T09:00:00Z", "fieldsV1": fields, **more}


HOLDS: dict[str, Any] = {"f:metadata": {"f:annotations": {"f:min": {}}}}
METADATA = {
    "resourceVersion": "7",
    "managedFields": [
        entry("pilotlight", HOLDS, operation="Apply"),
        entry("controller", {**HOLDS, "f:spec": {}}),
        entry("pilotlight", {"f:metadata": {"f:labels": {}}}),
        entry("status", HOLDS, subresource="status"),
    ],
}


class Server:
    """One object; `meets`: what the next PATCHes meet instead."""

    def __init__(self) -> None:
        self.object: dict[str, Any] | None = {"metadata": deepcopy(METADATA)}
        self.meets: list[Refused] = []
        self.sent: list[tuple[str, str, Any, str, dict[str, str]]] = []

    async def get(self, path: str) -> dict[str, Any]:
        if self.object is None:
            raise Refused(path, 404, "NotFound", "")
        return deepcopy(self.object)

    async def send(self, method: str, path: str, body: Any, *, content_type: str, params: dict[str, str]) -> Any:
        self.sent.append((method, path, body, content_type, params))
        if self.meets:
            raise self.meets.pop(0)
        return {"metadata": {}}


def client(server: Server) -> Client:
    return cast("Client", server)


def test_owners_of_a_field() -> None:
    found = [(owner.manager, owner.applied, owner.maker) for owner in owners(METADATA, MIN)]
    assert found == [("pilotlight", True, False), ("controller", False, True)]
    assert owners(METADATA, ("metadata", "annotations", "other")) == ()
    assert owners({}, MIN) == ()


def test_an_entry_without_a_time_or_with_odd_fields_is_read_as_far_as_it_goes() -> None:
    odd = {"managedFields": [entry("a", HOLDS, time="then"), entry("b", {"f:metadata": {"f:annotations": []}}), {}]}
    (found,) = owners(odd, MIN)
    assert (found.manager, found.at) == ("a", None)


async def test_apply_names_the_object_that_it_was_decided_on() -> None:
    server = Server()
    fields = {"metadata": {"annotations": {"min": "1"}}}
    await apply(client(server), REVISIONS, KEY, fields, manager="me", uid="u", version="7", force=True)
    ((method, path, body, kind, params),) = server.sent
    assert (method, path, kind) == ("PATCH", PATH, APPLY_PATCH)
    assert params == {"fieldManager": "me", "force": "true"}
    assert body == {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Revision",
        "metadata": {
            "annotations": {"min": "1"},
            "name": "r1",
            "namespace": "team-a",
            "uid": "u",
            "resourceVersion": "7",
        },
    }
    assert json.dumps(fields) == '{"metadata": {"annotations": {"min": "1"}}}'


async def test_release_strikes_out_all_of_ours_from_the_last_on() -> None:
    server = Server()
    await release(client(server), REVISIONS, KEY)
    ((_, path, body, kind, _),) = server.sent
    assert (path, kind) == (PATH, JSON_PATCH)
    assert body == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "remove", "path": "/metadata/managedFields/2"},
        {"op": "remove", "path": "/metadata/managedFields/0"},
    ]


async def test_release_of_what_is_not_there_writes_nothing() -> None:
    server = Server()
    assert await release(client(server), REVISIONS, KEY, "somebody") == server.object
    server.object = None
    assert await release(client(server), REVISIONS, KEY) is None
    assert server.sent == []


@pytest.mark.parametrize("status", [409, 422])
async def test_release_reads_again_what_changed_meanwhile_but_not_for_ever(status: int) -> None:
    server = Server()
    server.meets = [Refused(PATH, status, "Conflict", "")]
    assert await release(client(server), REVISIONS, KEY) == {"metadata": {}}
    assert len(server.sent) == 2
    server.meets = [Refused(PATH, status, "Conflict", "")] * 100
    with pytest.raises(Refused):
        await release(client(server), REVISIONS, KEY)
    assert len(server.sent) == 2 + TRIES


async def test_release_that_is_not_allowed_is_not_tried_again() -> None:
    server = Server()
    server.meets = [Refused(PATH, 403, "Forbidden", "")]
    with pytest.raises(Refused):
        await release(client(server), REVISIONS, KEY)
    assert len(server.sent) == 1
