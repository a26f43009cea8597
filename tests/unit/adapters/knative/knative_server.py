"""A small API server with Knative's objects: list, watch, server-side apply of min-scale, and a Knative that reacts."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from activator_ext.adapters.knative.objects import MIN_SCALE
from activator_ext.adapters.kubernetes.resource import (
    DEPLOYMENTS,
    KNATIVE_SERVICES,
    POD_AUTOSCALERS,
    REVISIONS,
    Resource,
)
from tests.unit.adapters.knative.world import deployment, entry, ksvc
from tests.unit.adapters.kubernetes.api_server import ApiServer

WATCHED = (KNATIVE_SERVICES, REVISIONS, POD_AUTOSCALERS, DEPLOYMENTS)
Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


@dataclass
class KnativeServer(ApiServer):
    """`collections` by plural. `copies`: as Knative ≥ 1.21, a Revision's min-scale is its PodAutoscaler's.

    `heeds`: the autoscaler does as min-scale says. `version_label`: of the CRDs. `on_write`: called before each write
    with its number; may return an answer instead. `cut_after`: that write is done, and its answer lost.
    """

    collections: dict[str, ApiServer] = field(default_factory=lambda: {each.plural: ApiServer() for each in WATCHED})
    copies: bool = True
    heeds: bool = True
    shows: bool = True
    version_label: str = "1.23.0"
    writes: int = 0
    fail_before: int = 0
    refuse_all: bool = False
    cut_after: int = 0
    at: str = "2026-11-30T08:00:00Z"

    def add(self, resource: Resource, value: dict[str, Any]) -> None:
        """Create or edit an object, and tell the watches."""
        collection = self.collections[resource.plural]
        name = value["metadata"]["name"]
        kind = "MODIFIED" if name in collection.objects else "ADDED"
        self.version += 1
        collection.version = self.version
        value = deepcopy(value)
        value["metadata"]["resourceVersion"] = str(self.version)
        collection.objects[name] = value
        if self.shows:
            collection.tell(kind, value)
        if resource is REVISIONS:
            self._react(value)

    def serve(self, latest: str, *traffic: dict[str, Any]) -> None:
        self.add(KNATIVE_SERVICES, ksvc(latest, *traffic))

    def revision(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.collections["revisions"].objects[name]
        return found

    def held(self, plural: str = "revisions") -> list[tuple[str, str | None, list[str]]]:
        """Each object with its min-scale and the entries of ours."""
        return [
            (
                name,
                value["metadata"]["annotations"].get(MIN_SCALE),
                [
                    one["manager"]
                    for one in value["metadata"]["managedFields"]
                    if one["manager"].startswith("pilotlight")
                ],
            )
            for name, value in sorted(self.collections[plural].objects.items())
        ]

    def _react(self, revision: dict[str, Any]) -> None:
        name = revision["metadata"]["name"]
        wanted = revision["metadata"]["annotations"].get(MIN_SCALE, "0")
        autoscaler = self.collections["podautoscalers"].objects.get(name)
        if self.copies and autoscaler is not None and autoscaler["metadata"]["annotations"].get(MIN_SCALE) != wanted:
            copied = deepcopy(autoscaler)
            copied["metadata"]["annotations"][MIN_SCALE] = wanted
            self.add(POD_AUTOSCALERS, copied)
        if self.heeds:
            self.add(DEPLOYMENTS, deployment(name, int(wanted)))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if "customresourcedefinitions" in parts:
            self.seen.append((request.method, {"path": request.path}))
            return web.json_response({"metadata": {"labels": {"app.kubernetes.io/version": self.version_label}}})
        plural = next(part for part in parts if part in self.collections)
        collection = self.collections[plural]
        if parts[-1] == plural:
            return await collection.handle(request)
        self.seen.append((request.method, {"path": request.path}))
        if request.method == "GET":
            found = collection.objects.get(parts[-1])
            return _status(404, "NotFound") if found is None else web.json_response(found)
        return await self._write(request, next(one for one in WATCHED if one.plural == plural), parts[-1])

    async def _write(self, request: web.Request, resource: Resource, name: str) -> web.StreamResponse:
        self.writes += 1
        if self.refuse_all or self.writes == self.fail_before:
            return _status(500, "InternalError")
        known = self.collections[resource.plural].objects.get(name)
        body = json.loads(await request.text())
        if known is None:
            return _status(404, "NotFound") if isinstance(body, list) else _status(409, "Conflict")
        value = deepcopy(known)
        if isinstance(body, list):
            refused = _json_patch(value, body)
        else:
            forced = request.query["force"] == "true"
            refused = _apply(value, body["metadata"], request.query["fieldManager"], self.at, forced=forced)
        if refused is not None:
            return refused
        self.add(resource, value)
        if self.writes == self.cut_after:
            assert request.transport is not None
            request.transport.close()
        return web.json_response(self.collections[resource.plural].objects[name])


def _apply(
    value: dict[str, Any], wanted: dict[str, Any], manager: str, at: str, *, forced: bool
) -> web.StreamResponse | None:
    metadata = value["metadata"]
    if wanted.get("uid") != metadata["uid"] or wanted["resourceVersion"] != metadata["resourceVersion"]:
        return _status(409, "Conflict")
    entries = metadata["managedFields"]
    others = [one for one in entries if one["manager"] != manager and _owns(one)]
    new = wanted.get("annotations", {}).get(MIN_SCALE)
    if new is not None and others and metadata["annotations"].get(MIN_SCALE) != new:
        if not forced:
            return _status(409, "Conflict")
        for one in others:
            del one["fieldsV1"]["f:metadata"]
        entries[:] = [one for one in entries if one["fieldsV1"]]
    mine = [one for one in entries if one["manager"] == manager]
    entries[:] = [one for one in entries if one["manager"] != manager]
    if new is not None:
        metadata["annotations"][MIN_SCALE] = new
        entries.append(entry(manager, "Apply", at))
    elif mine and not others:
        del metadata["annotations"][MIN_SCALE]
    return None


def _json_patch(value: dict[str, Any], operations: list[dict[str, Any]]) -> web.StreamResponse | None:
    for operation in operations:
        if operation["op"] == "test":
            if operation["value"] != value["metadata"]["resourceVersion"]:
                return _status(422, "Invalid")
        else:
            del value["metadata"]["managedFields"][int(operation["path"].rpartition("/")[2])]
    return None


def _owns(one: dict[str, Any]) -> bool:
    return "f:metadata" in one["fieldsV1"]


def _status(code: int, reason: str) -> web.StreamResponse:
    return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": "told to"}, status=code)


@asynccontextmanager
async def knative_server() -> AsyncIterator[KnativeServer]:
    """A running one."""
    server = KnativeServer()
    await server.start()
    try:
        yield server
    finally:
        for collection in server.collections.values():
            collection.say(None)
        await asyncio.sleep(0)
        await server.stop()
