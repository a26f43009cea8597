"""Bad objects → what a cluster says: `python -m tests.cluster.bad_objects` writes docs/reference/bad-objects.md.

An object is refused when it is sent, or it is taken and its condition Accepted says why it does not count. The page is
what a real API server answered; tests/cluster/test_bad_objects.py asks it again.
"""

import asyncio
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from activator_ext.adapters.kubernetes.client import MERGE_PATCH, Client
from activator_ext.adapters.kubernetes.faults import Refused
from activator_ext.adapters.kubernetes.holds import holds
from activator_ext.adapters.kubernetes.ours import HOLDS, POLICIES, keep
from activator_ext.adapters.kubernetes.policies import ObjectId, assign
from activator_ext.adapters.kubernetes.resource import Json
from activator_ext.adapters.kubernetes.served import Served
from activator_ext.adapters.kubernetes.status import hold_status, patch, policy_status
from activator_ext.adapters.kubernetes.status_writer import write_status
from activator_ext.adapters.kubernetes.statuses import StatusWrite
from activator_ext.adapters.local.policy import API_VERSION
from scripts.crd_rules import TOLD_IN_STATUS
from scripts.crds import definitions

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "bad-objects.md"
_TEXT = """\
# Bad objects

*Written by `python -m tests.cluster.bad_objects` from what an API server answered; a test asks it again.*

What a cluster says of a PrewarmPolicy or PrewarmHold that is wrong. Each was named `chat` and had
`serviceRef: {{name: chat}}`, unless another is shown. What `pilotlight check` says of a policy stands here in the same
words; a type error and an unknown key have those of Kubernetes. An unknown key is refused by `kubectl`, which asks for
it; to other clients the API server sends a warning and drops the key.

{tables}

## Why some are taken

| object | why it is not refused |
| --- | --- |
{taken}
"""
RESOURCES = {each.kind: each for each in (POLICIES, HOLDS)}
_NOISE = ", <nil>: Invalid value: null: some validation rules were not checked"


@dataclass(frozen=True)
class Case:
    """One object. `beside`: another policy that was there before; `then`: an edit, which is what is judged."""

    kind: str
    spec: Mapping[str, Any]
    shown: str
    beside: Mapping[str, Any] | None = None
    then: Mapping[str, Any] | None = None
    services: tuple[str, ...] = ("chat",)
    name: str = "chat"


def _flow(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000).strip().removesuffix("\n...")


def _policies(*specs: Mapping[str, Any], **more: Any) -> Iterator[Case]:
    for spec in specs:
        yield Case("PrewarmPolicy", {"serviceRef": {"name": "chat"}, **spec}, f"`{_flow(dict(spec))}`", **more)


def _schedules(*schedules: Mapping[str, Any]) -> Iterator[Case]:
    for each in schedules:
        spec = {"serviceRef": {"name": "chat"}, "schedules": [{"name": "a", "until": "0 18 * * *", **each}]}
        yield Case("PrewarmPolicy", spec, f"a schedule with `{_flow(dict(each))}`")


def _holds(*specs: Mapping[str, Any], **more: Any) -> Iterator[Case]:
    for spec in specs:
        shown = f"a hold with `{_flow(dict(spec))}`"
        yield Case("PrewarmHold", {"serviceRef": {"name": "chat"}, **spec}, shown, **more)


_NIGHT = {"name": "night", "start": "0 1 * * *", "until": "0 2 * * *"}
CASES: Mapping[str, tuple[Case, ...]] = {
    "Refused when it is sent: policies": (
        Case("PrewarmPolicy", {}, "no `serviceRef`"),
        *_policies(
            {"serviceRef": {"name": "Chat"}},
            {"serviceRef": {"kind": "Service", "name": "chat"}},
            {"minReplicas": 1},
            {"bounds": {"min": 3, "max": 2}},
            {"bounds": {"max": 0}},
            {"coldStartCost": "10"},
            {"coldStartCost": 10},
            {"coldStartCost": "400d"},
            {"leadTime": {"prior": "0s"}},
            {"objective": {"readyRatio": 1.5}},
            {"objective": {"monthlyBudget": "300"}},
            {"queue": {"sources": ["keda"]}},
            {"queue": {"sources": ["engine"], "prometheus": {"server": "http://p:9090", "query": "up"}}},
            {"golden": {"maxTokens": 2, "tokens": [1, 2, 3]}},
            {"forecast": {"mode": "act"}},
            {"parking": {"pool": "a_b"}},
        ),
        *_schedules(
            {"readyBy": "0 9 * *"},
            {"readyBy": "0 25 * * *"},
            {"readyBy": "@daily"},
            {"readyBy": "0 9 L * *"},
            {},
            {"readyBy": "0 9 * * *", "start": "0 8 * * *"},
            {"readyBy": "0 9 * * *", "timeZone": "Europe/Madird"},
            {"readyBy": "0 9 * * *", "timeZone": "+02:00"},
            {"readyBy": "0 9 * * *", "replicas": 0},
            {"name": "", "readyBy": "0 9 * * *"},
        ),
        Case(
            "PrewarmPolicy",
            {"serviceRef": {"name": "chat"}, "schedules": [_NIGHT, _NIGHT]},
            "two schedules of one name",
        ),
        Case(
            "PrewarmPolicy",
            {"serviceRef": {"name": "chat"}, "schedules": [{**_NIGHT, "name": str(n)} for n in range(101)]},
            "101 schedules",
        ),
    ),
    "Refused when it is sent: holds": (
        *_holds(
            {},
            {"for": "1h", "until": "2030-01-01T10:00:00Z"},
            {"for": "32d"},
            {"until": "2030-01-01 10:00"},
            {"until": "2030-02-30T10:00:00Z"},
            {"readyBy": "2030-01-01T10:00:00+01:00", "until": "2030-01-01T09:00:00Z"},
            {"readyBy": "2030-01-01T10:00:00Z", "until": "2030-02-02T10:00:00Z"},
            {"for": "1h", "replicas": 0},
        ),
        Case("PrewarmHold", {"for": "1h"}, "a hold without `serviceRef`"),
        Case(
            "PrewarmHold",
            {"serviceRef": {"name": "chat"}, "for": "1h"},
            "another service in a hold that there is",
            then={"serviceRef": {"name": "other"}},
        ),
    ),
    "Taken, and told in its condition Accepted": (
        *_schedules({"readyBy": "50-10 * * * *"}, {"readyBy": "0 0 30 2 *"}),
        *_policies({"serviceRef": {"name": "chta"}}),
        Case(
            "PrewarmPolicy",
            {"serviceRef": {"name": "chat"}},
            "a second policy for the same service",
            beside={"serviceRef": {"name": "chat"}},
        ),
        Case("PrewarmPolicy", {}, "a policy `default` where no service is left", services=(), name="default"),
        *_policies({"bounds": {"max": 9}}, {"forecast": {"mode": "Act"}}),
        *_holds({"for": "1h"}, services=()),
        *_holds({"until": "2100-01-01T10:00:00Z"}),
    ),
}
"""Every case by its heading. The services have minReplicas 0 and maxReplicas 3."""


async def ready_api(client: Client) -> None:
    """Install the CRDs, and wait until the API server takes objects of them with their rules."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for definition in definitions().values():
        name = definition["metadata"]["name"]
        params = {"fieldManager": "pilotlight-install", "force": "true"}
        sent = client.send(
            "PATCH", f"{crds}/{name}", definition, content_type="application/apply-patch+yaml", params=params
        )
        generation = (await sent)["metadata"]["generation"]
        async with asyncio.timeout(30):
            while not await _established(client, f"{crds}/{name}", generation):  # noqa: ASYNC110 — it tells nobody
                await asyncio.sleep(0.1)
    async with asyncio.timeout(30):
        # The handler of an edited CRD is changed a moment after the object.
        while await _taken(client, {"bounds": {"min": 3, "max": 2}, "serviceRef": {"name": "chat"}}):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _established(client: Client, path: str, generation: int) -> bool:
    found = await client.get(path)
    conditions = {each["type"]: each["status"] for each in found.get("status", {}).get("conditions") or ()}
    return conditions.get("Established") == "True" and found["metadata"]["generation"] >= generation


async def _taken(client: Client, spec: Mapping[str, Any]) -> bool:
    item = _object("PrewarmPolicy", "rules-are-there", "default", spec)
    try:
        await client.send("POST", _collection(item), item, params={"dryRun": "All"})
    except Refused as refused:
        return refused.status != 422
    return True


def _object(kind: str, name: str, namespace: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def _collection(item: Mapping[str, Any]) -> str:
    return RESOURCES[item["kind"]].path(item["metadata"]["namespace"])


async def answer(client: Client, namespace: str, case: Case) -> str:
    """What the cluster says of the case, in an otherwise empty namespace."""
    async with _Made(client, namespace, case) as (created, refused):
        if refused is not None:
            return _cleaned(refused.said, namespace)
        assert created is not None
        return await _condition(client, namespace, case, created)


class _Made:
    """The objects of a case while it is judged; removed at the end."""

    def __init__(self, client: Client, namespace: str, case: Case) -> None:
        self._client, self._namespace, self._case = client, namespace, case
        self._paths: list[str] = []

    async def __aenter__(self) -> tuple[Json | None, Refused | None]:
        case = self._case
        try:
            if case.beside is not None:
                await self._create("PrewarmPolicy", "a-first", case.beside)
            created = await self._create(case.kind, case.name, case.spec)
            if case.then is not None:
                body = {"spec": dict(case.then)}
                created = await self._client.send("PATCH", self._paths[-1], body, content_type=MERGE_PATCH)
        except Refused as refused:
            return None, refused
        return created, None

    async def _create(self, kind: str, name: str, spec: Mapping[str, Any]) -> Json:
        item = _object(kind, name, self._namespace, spec)
        created = await self._client.send("POST", _collection(item), item, params={"fieldValidation": "Strict"})
        self._paths.append(f"{_collection(item)}/{name}")
        return created

    async def __aexit__(self, *_: object) -> None:
        for path in self._paths:
            await self._client.send("DELETE", path)


async def _condition(client: Client, namespace: str, case: Case, created: Json) -> str:
    """Decide on what is stored, write the status, and read the condition back."""
    identity, now = ObjectId.of(created), datetime.now(UTC)
    bounds = {"predictor": {"minReplicas": 0, "maxReplicas": 3}}
    served = [
        Served.of({"kind": "InferenceService", "metadata": {"name": name, "namespace": namespace}, "spec": bounds})
        for name in case.services
    ]
    resource = RESOURCES[case.kind]
    items = (await client.get(_collection(created)))["items"]
    objects = [keep(resource)(item).item for item in items]
    if case.kind == "PrewarmPolicy":
        status = patch({}, policy_status(assign(objects, served).verdicts[identity], {}, {}, now))
    else:
        status = patch({}, hold_status(holds(objects, served, now).verdicts[identity], None, {}, now))
    write = StatusWrite(resource, identity, status or {}, created["metadata"]["resourceVersion"])
    written = await write_status(client, write)
    assert written is not None
    accepted = written["status"]["conditions"][0]
    return f"Accepted={accepted['status']} ({accepted['reason']}): {_named(accepted['message'], namespace)}"


def _cleaned(text: str, namespace: str) -> str:
    """An API server's message without what surrounds it: which object it is, and rules that were left out."""
    text = _named(text, namespace).partition(" evaluating rule")[0]
    for kind in RESOURCES:
        text = text.replace(f'{kind}.pilotlight.dev "chat" is invalid: ', "")
        text = text.replace(f'{kind} in version "v1alpha1" cannot be handled as a {kind}: ', "")
    return text.strip("[]").partition(_NOISE)[0]


def _named(text: str, namespace: str) -> str:
    return text.replace(namespace, "team-a")


def render(answers: Mapping[str, str]) -> str:
    """The page."""
    tables = []
    for title, cases in CASES.items():
        rows = "\n".join(f"| {case.shown} | {_code(answers[case.shown])} |" for case in cases)
        tables.append(f"## {title}\n\n| object | answer |\n| --- | --- |\n{rows}")
    taken = "\n".join(f"| {what} | {why} |" for what, why in TOLD_IN_STATUS.items())
    return _TEXT.format(tables="\n\n".join(tables), taken=taken)


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{' ' if len(fence) > 1 else ''}{text.replace('|', '¦')}{' ' if len(fence) > 1 else ''}{fence}"


async def ask_all(client: Client, namespace: str) -> dict[str, str]:
    """The answer to each case by what is shown of it."""
    return {case.shown: await answer(client, namespace, case) for cases in CASES.values() for case in cases}


async def _write() -> None:
    async with await Client.connect() as client:
        await ready_api(client)
        namespace = f"bad-objects-{secrets.token_hex(3)}"
        await client.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        try:
            PAGE.write_text(render(await ask_all(client, namespace)), encoding="utf-8")
        finally:
            await client.send("DELETE", f"/api/v1/namespaces/{namespace}")
    print(os.path.relpath(PAGE))


if __name__ == "__main__":
    asyncio.run(_write())
    sys.exit(0)
