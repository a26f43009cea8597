"""What is kept of our objects, and that our own writes wake nobody."""

from activator_ext.adapters.kubernetes.ours import HOLDS, POLICIES, keep
from activator_ext.adapters.kubernetes.policies import assign
from tests.unit.adapters.kubernetes.objects import hold, policy, served


def test_an_object_of_a_list_is_read_though_it_says_not_what_it_is() -> None:
    seen = policy()
    del seen["apiVersion"], seen["kind"]
    kept = keep(POLICIES)(seen)

    assert "managedFields" not in kept.item["metadata"]
    assert [each.outcome.value for each in assign([kept.item], served("chat")).verdicts.values()] == ["Accepted"]


def test_a_new_status_is_no_change_and_is_kept() -> None:
    before = hold(for_="1h")
    after = {**before, "metadata": {**before["metadata"], "resourceVersion": "8"}, "status": {"state": "Active"}}
    old, new = keep(HOLDS)(before), keep(HOLDS)(after)

    assert old == new
    assert (new.status, new.resource_version) == ({"state": "Active"}, "8")


def test_a_new_spec_and_a_deletion_are_changes() -> None:
    before = policy()
    edited = {**before, "spec": {**before["spec"], "coldStartCost": "1m"}}
    going = {**before, "metadata": {**before["metadata"], "deletionTimestamp": "2026-03-02T10:00:00Z"}}
    kept = [keep(POLICIES)(each) for each in (before, edited, going)]

    assert len([each for each in kept if each != kept[0]]) == 2
