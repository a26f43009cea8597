from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator_ext.adapters.knative.objects import Held, Routed, Scaled, Scheme, deployment_of, manager_over
from activator_ext.adapters.knative.plan import FindingCode, Seen, Step, Stuck, Write, copies_min_scale, plan, shares
from activator_ext.adapters.kubernetes.resource import Key
from activator_ext.core.model import ServiceId
from tests.unit.adapters.knative.world import CHAT, ksvc, ours, revision, seen

NOW = datetime(2026, 11, 30, 9, tzinfo=UTC)
R1, R2 = "chat-predictor-00001", "chat-predictor-00002"
UP = {R1: 1}
HPA = {"autoscaling.knative.dev/class": "hpa.autoscaling.knative.dev"}
LATEST = ksvc(R1)


@dataclass
class Case:
    """What is seen and wanted, and what is to be written, nudged and told."""

    why: str
    seen: Seen
    floor: int = 1
    writes: list[tuple[Step, str, int | None]] = field(default_factory=list)
    manager: str | None = None
    force: bool | None = None
    findings: list[FindingCode] = field(default_factory=list)
    scheme: Scheme = Scheme.REVISION


SPLIT = ksvc(R2, {"latestRevision": True, "percent": 10, "revisionName": R2}, {"percent": 90, "revisionName": R1})
TAGGED = ksvc(
    R2,
    {"latestRevision": True, "percent": 100, "revisionName": R2},
    {"percent": 0, "revisionName": R1, "tag": "old"},
    {"revisionName": R1, "tag": "prev"},
)
PINNED = ksvc(R2, {"percent": 100, "revisionName": R1})
MOVING = ksvc(R2, {"latestRevision": True, "percent": 100, "revisionName": R1})

CASES = [
    # Raise, hold, lower.
    Case("raise", seen(LATEST, revision(R1)), 1, [(Step.RAISE, R1, 1)], manager="pilotlight/was=0", force=True),
    Case("raise over none", seen(LATEST, revision(R1, min_scale=None)), 2, [(Step.RAISE, R1, 2)], manager="pilotlight"),
    Case("held: nothing to do", seen(LATEST, ours(R1, "1"), pods=UP), 1),
    Case("raise further", seen(LATEST, ours(R1, "1")), 2, [(Step.RAISE, R1, 2)], "pilotlight/was=0", force=False),
    Case("lower by one", seen(LATEST, ours(R1, "2")), 1, [(Step.RAISE, R1, 1)], manager="pilotlight/was=0"),
    Case("lower", seen(LATEST, ours(R1, "1")), 0, [(Step.RESTORE, R1, 0)], manager="pilotlight/was=0"),
    Case("lower what there was nothing of", seen(LATEST, ours(R1, "1", None)), 0, [(Step.DROP, R1, None)]),
    Case("killed before the release", seen(LATEST, ours(R1, "0")), 0, [(Step.RELEASE, R1, None)]),
    Case("nothing held, nothing wanted", seen(LATEST, revision(R1)), 0),
    # The user's own bounds.
    Case("the user's min is as high", seen(LATEST, revision(R1, min_scale="2")), 2),
    Case("above the user's min", seen(LATEST, revision(R1, min_scale="2")), 3, [(Step.RAISE, R1, 3)]),
    Case("back to the user's min", seen(LATEST, ours(R1, "3", "2")), 0, [(Step.RESTORE, R1, 2)]),
    Case("no floor at all above the user's min", seen(LATEST, ours(R1, "3", "2")), 2, [(Step.RESTORE, R1, 2)]),
    Case(
        "never over max", seen(LATEST, revision(R1, max_scale="2")), 5, [(Step.RAISE, R1, 2)],
        findings=[FindingCode.MAX_REPLICAS],
    ),
    Case("max 0 is no limit", seen(LATEST, revision(R1, max_scale="0")), 5, [(Step.RAISE, R1, 5)]),
    Case(
        "min and max in old spelling",
        seen(LATEST, revision(R1, min_scale=None, more={"autoscaling.knative.dev/minScale": "1"})),
        1,
    ),
    # Edits (trap 4): the newest ready Revision, the old one until it has no traffic.
    Case("not ready yet: the old one", seen(ksvc(R1), ours(R1, "1"), revision(R2), pods=UP), 1),
    Case("newly ready, traffic on its way", seen(MOVING, ours(R1, "1"), revision(R2)), 1, [(Step.RAISE, R2, 1)]),
    Case(
        "newly ready, has the traffic", seen(ksvc(R2), ours(R1, "1"), revision(R2)), 1,
        [(Step.RAISE, R2, 1), (Step.RESTORE, R1, 0)],
    ),
    Case("the old one is cleared", seen(ksvc(R2), ours(R1, "1"), ours(R2, "1")), 1, [(Step.RESTORE, R1, 0)]),
    # Traffic.
    Case("a split", seen(SPLIT, revision(R1), revision(R2)), 1, [(Step.RAISE, R1, 1), (Step.RAISE, R2, 1)]),
    Case("a split of ten", seen(SPLIT, revision(R1), revision(R2)), 10, [(Step.RAISE, R1, 9), (Step.RAISE, R2, 1)]),
    Case("a tag has no traffic", seen(TAGGED, revision(R1), revision(R2)), 1, [(Step.RAISE, R2, 1)]),
    Case("rolled back: not the newest", seen(PINNED, revision(R1), revision(R2)), 1, [(Step.RAISE, R1, 1)]),
    # What is not there.
    Case("never ready", seen(ksvc("")), 1, findings=[FindingCode.NEVER_READY]),
    Case("no Knative Service", seen(None), 1, findings=[FindingCode.NOT_SEEN]),
    Case("its Service is gone, ours is cleared", seen(None, ours(R1, "1")), 0, [(Step.RESTORE, R1, 0)]),
    Case("the Revision is gone", seen(LATEST), 1, findings=[FindingCode.NO_REVISION]),
    Case("a transformer is no predictor", seen(
        ksvc(R1, labels={"serving.kserve.io/inferenceservice": "chat", "component": "transformer"}), revision(R1)
    ), 1, findings=[FindingCode.NOT_SEEN]),
    # Others who set it.
    Case(
        "a user set it lower", seen(LATEST, revision(R1, by=("kubectl-annotate", "Update"))), 1,
        findings=[FindingCode.CONTESTED],
    ),
    Case("a user set it as high", seen(LATEST, revision(R1, min_scale="1", by=("kubectl", "Update"))), 1),
    Case("a user's is not lowered", seen(LATEST, revision(R1, min_scale="1", by=("kubectl", "Update"))), 0),
    # Knative ≤ 1.20: the PodAutoscaler.
    Case(
        "old Knative", seen(LATEST, revision(R1), autoscalers=(revision(R1),)), 1, [(Step.RAISE, R1, 1)],
        scheme=Scheme.POD_AUTOSCALER,
    ),
    Case(
        "old Knative, its max", seen(LATEST, revision(R1, max_scale="1"), autoscalers=(revision(R1),)), 3,
        [(Step.RAISE, R1, 1)], scheme=Scheme.POD_AUTOSCALER, findings=[FindingCode.MAX_REPLICAS],
    ),
    Case(
        "old Knative: nothing on Revisions", seen(LATEST, ours(R1, "1"), autoscalers=(ours(R1, "1"),)), 1,
        [(Step.RESTORE, R1, 0)], scheme=Scheme.POD_AUTOSCALER,
    ),
    Case(
        "old Knative: its PodAutoscaler is to come", seen(LATEST, revision(R1)), 1, [], scheme=Scheme.POD_AUTOSCALER
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.why)
def test_cases(case: Case) -> None:
    planned = plan(NOW, {CHAT: case.floor}, case.seen, case.scheme, {})
    assert [(write.step, write.target.key.name, write.value) for write in planned.writes] == case.writes
    assert [finding.code for finding in planned.findings] == case.findings
    if case.manager is not None:
        assert planned.writes[0].manager == case.manager
    if case.force is not None:
        assert planned.writes[0].force is case.force
    assert all(finding.service == CHAT and finding.text for finding in planned.findings)


def test_what_is_held_of_a_service_without_a_floor_is_given_up() -> None:
    planned = plan(NOW, {}, seen(LATEST, ours(R1, "1")), Scheme.REVISION, {})
    assert [write.step for write in planned.writes] == [Step.RESTORE]


# The nudge (trap 1): the autoscaler does not heed min-scale at zero.


def test_a_raised_revision_without_replicas_is_nudged_after_two_seconds_and_then_less_and_less_often() -> None:
    world = seen(LATEST, ours(R1, "1"), pods={R1: 0})
    stuck: dict[Key, Stuck] = {}
    nudged = []
    at = NOW
    for _ in range(9):
        planned = plan(at, {CHAT: 1}, world, Scheme.REVISION, stuck)
        stuck = dict(planned.stuck)
        if planned.nudges:
            assert planned.nudges == (Key("team-a", R1),)
            nudged.append((at - NOW).total_seconds())
        assert planned.next_at is not None
        assert planned.next_at > at
        at = planned.next_at
    assert nudged == [2, 6, 14, 30, 62, 122, 182, 242]


@pytest.mark.parametrize(
    ("why", "world", "floor"),
    [
        ("it has its replicas", seen(LATEST, ours(R1, "1"), pods={R1: 1}), 1),
        ("its Deployment is not seen", seen(LATEST, ours(R1, "1")), 1),
        ("it is not raised yet", seen(LATEST, revision(R1), pods={R1: 0}), 1),
        ("nothing wants it", seen(LATEST, ours(R1, "1"), pods={R1: 0}), 0),
        (
            "an HPA scales it",
            seen(LATEST, ours(R1, "1", more=HPA), pods={R1: 0}),
            1,
        ),
    ],
)
def test_no_nudge_where(why: str, world: Seen, floor: int) -> None:
    long_ago = {Key("team-a", R1): Stuck(NOW - timedelta(hours=1), 0, NOW - timedelta(hours=1))}
    planned = plan(NOW, {CHAT: floor}, world, Scheme.REVISION, long_ago)
    assert planned.nudges == (), why
    assert planned.next_at is None


def test_replicas_that_go_and_come_again_begin_the_two_seconds_anew() -> None:
    down, up = seen(LATEST, ours(R1, "1"), pods={R1: 0}), seen(LATEST, ours(R1, "1"), pods={R1: 1})
    first = plan(NOW, {CHAT: 1}, down, Scheme.REVISION, {})
    second = plan(NOW + timedelta(seconds=1), {CHAT: 1}, up, Scheme.REVISION, first.stuck)
    third = plan(NOW + timedelta(seconds=9), {CHAT: 1}, down, Scheme.REVISION, second.stuck)
    assert third.nudges == ()
    assert third.next_at == NOW + timedelta(seconds=11)


# Which Knative it is, by what it does.


@pytest.mark.parametrize(
    ("why", "world", "copies"),
    [
        ("nothing written yet", seen(LATEST, revision(R1), autoscalers=(revision(R1),)), None),
        ("copied", seen(LATEST, ours(R1, "1"), autoscalers=(revision(R1, min_scale="1"),)), True),
        ("not copied for an hour", seen(LATEST, ours(R1, "1"), autoscalers=(revision(R1),)), False),
        ("ours stays on a PodAutoscaler", seen(LATEST, revision(R1), autoscalers=(ours(R1, "1"),)), False),
        ("just written", seen(LATEST, ours(R1, "1", at="2026-11-30T08:59:58Z"), autoscalers=(revision(R1),)), None),
        ("equal by chance", seen(LATEST, ours(R1, "0"), autoscalers=(revision(R1),)), None),
    ],
)
def test_what_knative_does_tells_which_it_is(why: str, world: Seen, copies: bool | None) -> None:
    assert copies_min_scale(NOW, world) is copies, why


# Properties.

percents = st.lists(st.integers(0, 100), min_size=1, max_size=5)


@given(percents, st.integers(1, 50))
def test_every_part_of_the_traffic_is_served_and_the_floor_is_reached(parts: list[int], floor: int) -> None:
    total = sum(parts)
    scaled_parts = [part * 100 // total if total else 0 for part in parts]
    scaled_parts[-1] += 100 - sum(scaled_parts)
    traffic = [{"percent": part, "revisionName": f"r{n}"} for n, part in enumerate(scaled_parts)]
    world = seen(ksvc("r0", *traffic))
    found = shares(next(iter(world.services.values())), floor)
    assert found.keys() == {f"r{n}" for n, part in enumerate(scaled_parts) if part > 0}
    assert floor <= sum(found.values()) <= floor + len(found) - 1


def _carried_out(world: Seen, writes: tuple[Write, ...]) -> Seen:
    """The world after these writes, as the API server has it."""
    revisions = dict(world.revisions)
    for write in writes:
        target = revisions[write.target.key]
        if write.step is Step.RAISE:
            held = Held(write.manager, target.base, NOW)
            revisions[target.key] = Scaled(
                target.key, target.uid, target.service, write.value, target.max_scale, held, target.foreign
            )
        else:
            value = {Step.RESTORE: write.value, Step.DROP: None, Step.RELEASE: target.min_scale}[write.step]
            revisions[target.key] = Scaled(
                target.key, target.uid, target.service, value, target.max_scale, None, target.foreign
            )
    return Seen(world.services, revisions, world.autoscalers, world.replicas)


users = st.builds(
    lambda user_min, over: (user_min, 0 if over == 0 else (user_min or 0) + over),
    st.one_of(st.none(), st.integers(0, 3)),
    st.integers(0, 4),
)


@given(users, st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_any_way_of_floors_ends_where_it_began_and_stays_within_the_users_bounds(
    user: tuple[int | None, int], floors: list[int]
) -> None:
    user_min, user_max = user
    first = revision(
        R1,
        min_scale=None if user_min is None else str(user_min),
        max_scale=str(user_max) if user_max else None,
    )
    world = began = seen(LATEST, first)
    for floor in floors:
        planned = plan(NOW, {CHAT: floor}, world, Scheme.REVISION, {})
        assert len(planned.writes) <= 1
        world = _carried_out(world, planned.writes)
        now = world.revisions[Key("team-a", R1)]
        most = user_max or 10**6
        assert max(user_min or 0, min(floor, most)) == (now.min_scale or 0)
        assert plan(NOW, {CHAT: floor}, world, Scheme.REVISION, {}).writes == ()
    world = _carried_out(world, plan(NOW, {}, world, Scheme.REVISION, {}).writes)
    assert world == began


def test_managers_name_what_they_cover() -> None:
    assert manager_over(None) == "pilotlight"
    assert manager_over(2) == "pilotlight/was=2"
    known = next(iter(seen(LATEST, ours(R1, "3", "2")).revisions.values()))
    assert known.held is not None
    assert (known.held.manager, known.held.was, known.base) == ("pilotlight/was=2", 2, 2)
    assert known.service == ServiceId("team-a", "chat")
    assert deployment_of(known.key) == Key("team-a", f"{R1}-deployment")
    assert isinstance(next(iter(seen(LATEST).services.values())), Routed)
