"""What is sent for a status, and which refusals are none of ours to tell."""

from typing import Any, cast

import pytest

from activator_ext.adapters.kubernetes.client import MERGE_PATCH, Client
from activator_ext.adapters.kubernetes.faults import Refused
from activator_ext.adapters.kubernetes.ours import POLICIES
from activator_ext.adapters.kubernetes.policies import ObjectId
from activator_ext.adapters.kubernetes.status_writer import delete_hold, write_status
from activator_ext.adapters.kubernetes.statuses import StatusWrite

ITEM = ObjectId("team-a", "chat", "u-1")
WRITE = StatusWrite(POLICIES, ITEM, {"floor": 1}, "77")


class Api:
    """Answers each request with `refused`, or with what was sent."""

    def __init__(self, refused: int | None = None) -> None:
        self.refused, self.seen = refused, list[Any]()

    async def send(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        self.seen.append((method, path, body, options))
        if self.refused is not None:
            raise Refused(f"{method} {path}", self.refused, "Reason", "why")
        return body

    @property
    def client(self) -> Client:
        return cast("Client", self)


async def test_a_status_is_bound_to_what_it_was_decided_on() -> None:
    api = Api()
    await write_status(api.client, WRITE)

    assert api.seen == [
        (
            "PATCH",
            "/apis/pilotlight.dev/v1alpha1/namespaces/team-a/prewarmpolicies/chat/status",
            {"metadata": {"resourceVersion": "77"}, "status": {"floor": 1}},
            {"content_type": MERGE_PATCH},
        )
    ]


async def test_only_the_hold_that_was_meant_is_deleted() -> None:
    api = Api()
    await delete_hold(api.client, ITEM)

    assert api.seen == [
        (
            "DELETE",
            "/apis/pilotlight.dev/v1alpha1/namespaces/team-a/prewarmholds/chat",
            {"preconditions": {"uid": "u-1"}},
            {},
        )
    ]


@pytest.mark.parametrize("status", [404, 409])
async def test_what_changed_or_went_meanwhile_is_left_to_the_next_decision(status: int) -> None:
    api = Api(status)

    assert await write_status(api.client, WRITE) is None
    await delete_hold(api.client, ITEM)


@pytest.mark.parametrize("status", [403, 422, 500])
async def test_any_other_refusal_is_told(status: int) -> None:
    api = Api(status)

    with pytest.raises(Refused):
        await write_status(api.client, WRITE)
    with pytest.raises(Refused):
        await delete_hold(api.client, ITEM)
