"""Our CRDs on a real API server: what it takes is what `pilotlight check` takes; defaults, columns, status, words."""

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import pytest
import yaml

from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.faults import Refused
from activator_ext.adapters.kubernetes.ours import HOLDS, POLICIES
from activator_ext.adapters.kubernetes.policies import ObjectId, assign
from activator_ext.adapters.kubernetes.report import Report
from activator_ext.adapters.kubernetes.served import Served
from activator_ext.adapters.kubernetes.status import patch, policy_status
from activator_ext.adapters.kubernetes.status_writer import write_status
from activator_ext.adapters.kubernetes.statuses import StatusWrite
from activator_ext.adapters.local.documents import Document
from activator_ext.adapters.local.example import EXAMPLE_POLICY
from activator_ext.adapters.local.findings import Findings
from activator_ext.adapters.local.hold import PrewarmHold
from activator_ext.adapters.local.policy import API_VERSION, PrewarmPolicy
from activator_ext.adapters.local.schema import Strict, read
from activator_ext.core.leadtime import LeadTime
from activator_ext.core.model import DemandKind, Floor, Reason, ReasonCode, StartKind, Warmth
from tests.cluster.bad_objects import RESOURCES, ready_api
from tests.cluster.control_plane import ControlPlane, inference_service
from tests.cluster.installed import client, installed

__all__ = ["client", "installed"]  # fixtures
ROOT = Path(__file__).resolve().parents[2]
MODELS: dict[str, type[Strict]] = {"PrewarmPolicy": PrewarmPolicy, "PrewarmHold": PrewarmHold}
ANY = "default"
"""Namespace of what is asked about and not stored."""
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def document(item: Mapping[str, Any]) -> Document:
    """An object as the readers of files read it."""
    return Document("", dict(item), {}, {})


def policy(namespace: str, name: str = "chat", **spec: Any) -> dict[str, Any]:
    body = {"serviceRef": {"name": "chat"}, **spec}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": "PrewarmPolicy", "metadata": metadata, "spec": body}


async def refusal(client: Client, item: dict[str, Any]) -> str | None:
    """Why the API server would not take an object; None: it would. Nothing is stored."""
    try:
        params = {"dryRun": "All", "fieldValidation": "Strict"}
        await client.send("POST", RESOURCES[item["kind"]].path(ANY), item, params=params)
    except Refused as refused:
        if refused.status not in (400, 422):
            raise
        return refused.said
    return None


def local_refusal(item: dict[str, Any]) -> str | None:
    findings = Findings()
    read(MODELS[item["kind"]], document(item), findings)
    errors = [str(each) for each in findings.sorted() if each.severity == "error"]
    return "; ".join(errors) or None


async def test_what_is_applied_again_changes_nothing(plane: ControlPlane, client: Client) -> None:
    crds = ("crd", "prewarmpolicies.pilotlight.dev", "prewarmholds.pilotlight.dev")
    before = [each["metadata"]["resourceVersion"] for each in plane.get(*crds)["items"]]
    await ready_api(client)

    assert [each["metadata"]["resourceVersion"] for each in plane.get(*crds)["items"]] == before


async def test_defaults(client: Client, namespace: str) -> None:
    schedule = {"name": "office", "readyBy": "0 9 * * 1-5", "until": "0 18 * * 1-5"}
    sent = policy(namespace, schedules=[schedule], objective={}, forecast={}, parking={})
    stored = await client.send("POST", POLICIES.path(namespace), sent)

    assert stored["spec"] == {
        "serviceRef": {"kind": "InferenceService", "name": "chat"},
        "schedules": [{**schedule, "timeZone": "UTC", "replicas": 1}],
        "coldStartCost": "10m",
        "leadTime": {"prior": "2m"},
        "golden": {"maxTokens": 8},
        "objective": {"readyRatio": 0.99, "window": "28d"},
        "forecast": {"mode": "Observe"},
        "parking": {"level": "Auto"},
    }
    as_sent, as_stored = (read(PrewarmPolicy, document(each), Findings()) for each in (sent, stored))
    assert as_sent is not None
    assert as_stored is not None
    assert as_sent.spec == as_stored.spec


async def test_nothing_at_all_is_a_default_policy(client: Client, namespace: str) -> None:
    item = {"apiVersion": API_VERSION, "kind": "PrewarmPolicy", "metadata": {"name": "default", "namespace": namespace}}
    stored = await client.send("POST", POLICIES.path(namespace), item)

    assert stored["spec"] == {"coldStartCost": "10m", "leadTime": {"prior": "2m"}, "golden": {"maxTokens": 8}}


async def test_every_time_zone_is_taken(client: Client) -> None:
    zones = sorted(zone for zone in available_timezones() if zone not in ("localtime", "Factory"))
    assert len(zones) > 400
    for at in range(0, len(zones), 100):
        schedules = [
            {"name": zone, "timeZone": zone, "start": "0 1 * * *", "until": "0 2 * * *"}
            for zone in zones[at : at + 100]
        ]
        assert await refusal(client, policy(ANY, schedules=schedules)) is None


def examples() -> list[dict[str, Any]]:
    """Every policy and hold of the repository: the example, also with what is commented out, manifests, documents."""
    spelled = re.sub(r"^( *)# ((prometheus|  server|  query|tokens):.*)$", r"\1\2", EXAMPLE_POLICY, flags=re.MULTILINE)
    texts = [EXAMPLE_POLICY, spelled.replace("    sources:", "    # sources:")]
    texts += [
        file.read_text() for file in ROOT.glob("*/**/*.yaml") if ".venv" not in file.parts and "crds" not in file.parts
    ]
    for page in ROOT.glob("docs/**/*.md"):
        texts += re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    found = [item for text in texts if "Prewarm" in text for item in yaml.safe_load_all(text)]
    return [item for item in found if isinstance(item, dict) and item.get("kind") in RESOURCES]


async def test_every_example_of_local_mode_is_taken(client: Client) -> None:
    found = examples()
    assert {item["kind"] for item in found} == set(RESOURCES)
    for item in found:
        item["metadata"]["namespace"] = ANY
        assert await refusal(client, item) is None, item


GOOD: list[dict[str, Any]] = [
    {},
    {"bounds": {"min": 0, "max": 1}},
    {"bounds": {"min": 10_000, "max": 10_000}},
    {"coldStartCost": "0s"},
    {"coldStartCost": "1d12h30m5.5s"},
    {"coldStartCost": "366d"},
    {"coldStartCost": "000000001.000000000d000000001.000000000h000000001.000000000m000000001.000000000s"},
    {"leadTime": {"prior": "0.000000001s"}},
    {"objective": {"readyRatio": 1, "firstTokenSeconds": 0.25, "window": "7d", "monthlyBudget": "300.50 EUR"}},
    {"queue": {"target": 1, "sources": []}},
    {"queue": {"prometheus": {"server": "", "query": ""}}},
    {"golden": {"prompt": "é" * 4096, "tokens": [0] * 8}},
    {"golden": {"maxTokens": 64, "tokens": [2**31] * 64}},
    {"parking": {"level": "None", "pool": "a.b-c"}},
    {"schedules": [{"name": "é" * 63, "start": "*/5 0-6,22 1,15 jan-MAR fri#2,Mon", "until": "0 0\t* * 7"}]},
    {"schedules": [{"name": "x", "readyBy": " 007  09 * * * ", "until": "5/10 * * * *", "replicas": 10_000}]},
    {"bounds": None, "schedules": None, "queue": {"target": None}},
]


async def test_what_check_takes_is_taken(client: Client) -> None:
    for spec in GOOD:
        item = policy(ANY, **spec)
        assert local_refusal(item) is None, spec
        assert await refusal(client, item) is None, spec


TOLD_IN_STATUS = re.compile(r"Bad (minute|hour|day-of-month|month|day-of-week)|never fires")


_SOUND = ("*", "*", "*", "5", "09", "1", "7", "1-5", "*/5", "2/3")
_ODD = ("12", "23", "5-1", "20-7", "31", "60", "mon", "feb", "3#2", "L", "x")


def cron(chance: random.Random) -> str:
    """An expression, mostly of items that any field takes."""

    def field() -> str:
        items = [chance.choice(_ODD if chance.random() < 0.06 else _SOUND) for _ in range(chance.choice([1, 1, 1, 2]))]
        return ",".join(items)

    return " ".join(field() for _ in range(5 if chance.random() < 0.95 else 4))


def length(chance: random.Random) -> str:
    """A duration, or nearly one."""
    return "".join(f"{chance.choice([0, 1, 2.5, 300, 9000])}{unit}" for unit in "dhms" if chance.random() < 0.5)


def drawn(chance: random.Random) -> dict[str, Any]:
    """A spec, right, or wrong in a few places."""
    spec: dict[str, Any] = {"serviceRef": {"name": chance.choice(["chat"] * 20 + ["a.b", "A", "-a", "a..b"])}}
    if chance.random() < 0.3:
        spec["bounds"] = {"min": chance.randrange(-1, 4), "max": chance.randrange(0, 9)}
    if chance.random() < 0.3:
        spec["coldStartCost"] = length(chance)
    if chance.random() < 0.3:
        spec["leadTime"] = {"prior": length(chance)}
    if chance.random() < 0.7:
        begin = chance.choice([["readyBy"], ["start"]] * 5 + [["readyBy", "start"], []])
        times = {key: cron(chance) for key in [*begin, "until"]}
        spec["schedules"] = [{"name": "x", **times, "replicas": chance.choice([1, 1, 2, 0])}]
    return spec


def drawn_hold(chance: random.Random) -> dict[str, Any]:
    """The same of a hold."""

    def instant() -> str:
        day = chance.choice(["01-01", "01-02", "01-31", "02-01", "02-02", "02-28", "02-29", "02-30", "13-01"])
        hour, zone = chance.choice(["09:00:00", "09:00", "24:00:00"]), chance.choice(["Z", "+01:00", ""])
        return f"{chance.choice([2027, 2028])}-{day}T{hour}{zone}"

    spec: dict[str, Any] = {"serviceRef": {"name": "chat"}, "replicas": chance.choice([1, 1, 1, 0])}
    spec |= {key: instant() for key in ("readyBy", "until") if chance.random() < 0.5}
    if chance.random() < 0.5:
        spec["for"] = chance.choice(["1h", "31d", "31d0.1s", "744h", "745h", "0s", "x", "90m"])
    return spec


async def agreement(client: Client, cases: int) -> tuple[int, int, int]:
    """How many of so many drawn objects both take, both refuse, and only the status refuses. Fails on any other."""
    chance, both_take, both_refuse, in_status = random.Random(cases), 0, 0, 0
    for _ in range(cases):
        item = policy(ANY)
        if chance.random() < 0.2:
            item |= {"kind": HOLDS.kind, "spec": drawn_hold(chance)}
        else:
            item["spec"] = drawn(chance)
        here, there = local_refusal(item), await refusal(client, item)
        if here is None:
            assert there is None, item
            both_take += 1
        elif there is not None:
            both_refuse += 1
        else:
            assert all(TOLD_IN_STATUS.search(each) for each in here.split("; ")), (item, here)
            in_status += 1
    return both_take, both_refuse, in_status


async def test_check_and_the_api_server_agree(client: Client) -> None:
    both_take, both_refuse, in_status = await agreement(client, 150)

    assert both_take > 5
    assert both_refuse > 50
    assert in_status > 0


@pytest.mark.prove
async def test_check_and_the_api_server_agree_on_ten_thousand(client: Client) -> None:
    counts = await agreement(client, 10_000)
    print("drawn objects: both take {}, both refuse {}, taken and refused in status {}".format(*counts))

    assert min(counts) > 100


async def test_schedules_of_two_owners_are_merged_by_name(client: Client, namespace: str) -> None:
    for owner, hour in (("one", 1), ("two", 2)):
        schedule = {"name": owner, "start": f"0 {hour} * * *", "until": "0 5 * * *"}
        body = policy(namespace, schedules=[schedule])
        params = {"fieldManager": owner}
        await client.send(
            "PATCH", POLICIES.path(namespace, "chat"), body, content_type="application/apply-patch+yaml", params=params
        )
    stored = await client.get(POLICIES.path(namespace, "chat"))

    assert [each["name"] for each in stored["spec"]["schedules"]] == ["one", "two"]


async def test_status_and_columns(plane: ControlPlane, client: Client, namespace: str) -> None:
    """A real InferenceService and its policy, decided on, written and shown by kubectl."""
    plane.apply(inference_service(namespace, "chat", max_replicas=3))
    await client.send("POST", POLICIES.path(namespace), policy(namespace))
    stored = await client.get(POLICIES.path(namespace, "chat"))
    service = await client.get(f"/apis/serving.kserve.io/v1beta1/namespaces/{namespace}/inferenceservices/chat")
    served = Served.of(service)
    assigned = assign([stored], [served])
    reason = Reason(ReasonCode.SCHEDULE_WINDOW, {"name": "office", "until": "Mon 2026-03-02 18:00 CET"})
    until = datetime(2026, 3, 2, 17, tzinfo=UTC)
    report = Report(
        warmth=Warmth.WARM,
        ready_replicas=1,
        floor=Floor(1, until, reason, DemandKind.SCHEDULE),
        next_warm_at=datetime(2026, 3, 3, 8, tzinfo=UTC),
        lead_s=47.2,
        lead_times=(LeadTime(StartKind.CACHED_NODE, 41.0, 47.2, 12),),
    )
    identity = ObjectId.of(stored)
    wanted = policy_status(assigned.verdicts[identity], {served.id: report}, {}, NOON)
    change = patch({}, wanted)
    assert change is not None
    write = StatusWrite(POLICIES, identity, change, stored["metadata"]["resourceVersion"])
    written = await write_status(client, write)

    assert written is not None
    assert written["status"] == change
    assert written["metadata"]["generation"] == stored["metadata"]["generation"]
    assert patch(written["status"], wanted) is None
    # What was decided on is old by now.
    assert await write_status(client, replace(write, patch={"floor": 9})) is None
    # The spec's door does not reach the status.
    edited = {**written, "status": {"floor": 9}}
    assert (await client.send("PUT", POLICIES.path(namespace, "chat"), edited))["status"] == change

    head, row = plane.kubectl("-n", namespace, "get", "prewarmpolicies").splitlines()
    assert re.split(r"\s{2,}", head.strip()) == [
        "NAME", "SERVICE", "ACCEPTED", "WARMTH", "FLOOR", "REASON", "NEXT WARM", "LEAD TIME", "AGE",
    ]  # fmt: skip
    assert row.split()[:8] == ["chat", "chat", "True", "warm", "1", "schedule-window", "2026-03-03T08:00:00Z", "47s"]
    wide = plane.kubectl("-n", namespace, "get", "pwp", "-o", "wide")
    assert "schedule office until Mon 2026-03-02 18:00 CET" in wide
    assert f"it counts for {namespace}/chat." in wide
    assert "chat" in plane.kubectl("-n", namespace, "get", "pilotlight")
    plane.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pwp/chat", "--timeout=5s")


async def test_a_quota_bounds_the_holds_of_a_namespace(plane: ControlPlane, client: Client, namespace: str) -> None:
    counted = "count/prewarmholds.pilotlight.dev"
    escaped = counted.replace(".", r"\.")
    quota = {"metadata": {"name": "holds"}, "spec": {"hard": {counted: "1"}}}
    await client.send("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    # Until the quota's controller has counted, every create is refused for that.
    plane.kubectl(
        "-n",
        namespace,
        "wait",
        f"--for=jsonpath={{.status.used.{escaped}}}=0",
        "resourcequota/holds",
    )

    def hold(name: str) -> dict[str, Any]:
        return {**policy(namespace, name, **{"for": "1h"}), "kind": HOLDS.kind}

    await client.send("POST", HOLDS.path(namespace), hold("one"))
    with pytest.raises(Refused, match="exceeded quota"):
        await client.send("POST", HOLDS.path(namespace), hold("two"))


async def test_kubectl_explains_each_key(plane: ControlPlane, client: Client) -> None:
    assert client.server

    for field, words in {
        "prewarmpolicy": "The PrewarmPolicy object as users write it",
        "prewarmpolicy.spec.schedules.readyBy": "Cron, five fields: warm by that minute",
        "prewarmpolicy.status.leadTimes.p95": "Nineteen of twenty take no longer.",
        "prewarmhold.spec.for": "How long it lasts",
    }.items():
        said = " ".join(plane.kubectl("explain", field).split())
        assert words in said, said
