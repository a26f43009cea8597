from pathlib import Path

import pytest
from aiohttp import web

from activator_ext.adapters.knative.clear import NotCleared, clear
from activator_ext.adapters.kubernetes.patience import WatchPatience
from activator_ext.adapters.kubernetes.resource import POD_AUTOSCALERS
from tests.unit.adapters.knative.test_actuator import R1, R2, house
from tests.unit.adapters.knative.world import ours, revision

QUICK = WatchPatience(first_s=0.001, most_s=0.01, silence_s=30, life_s=30)


async def test_everything_of_ours_goes_and_nothing_else(tmp_path: Path) -> None:
    async with house(tmp_path, ours(R1, "3", "1"), ours(R2, "2", None)) as here:
        here.server.copies = False
        here.server.add(POD_AUTOSCALERS, ours(R1, "3", "1"))
        here.server.add(POD_AUTOSCALERS, revision(R2, min_scale="1", by=("kubectl", "Update")))
        assert len(await clear(here.client, patience=QUICK)) == 3
        assert here.server.held() == [(R1, "1", []), (R2, None, [])]
        assert here.server.held("podautoscalers") == [(R1, "1", []), (R2, "1", [])]
        assert await clear(here.client, patience=QUICK) == ()


async def test_what_fails_once_is_tried_again(tmp_path: Path) -> None:
    async with house(tmp_path, ours(R1, "1")) as here:
        here.server.fail_before = 2
        assert len(await clear(here.client, patience=QUICK)) == 1
        assert here.server.held() == [(R1, "0", [])]


async def test_what_cannot_be_cleared_is_named_with_why(tmp_path: Path) -> None:
    async with house(tmp_path, ours(R1, "1")) as here:
        here.server.refuse_all = True
        with pytest.raises(NotCleared, match=rf"held still: revision team-a/{R1}: .*500 InternalError"):
            await clear(here.client, within_s=0.5, patience=QUICK)


async def test_without_knative_there_is_nothing_to_clear(tmp_path: Path) -> None:
    async with house(tmp_path) as here:

        async def missing(request: web.Request) -> web.StreamResponse:
            return web.json_response({"reason": "NotFound"}, status=404)

        for collection in here.server.collections.values():
            collection.faults = [missing] * 1000
        assert await clear(here.client, patience=QUICK) == ()
