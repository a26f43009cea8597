"""Whatever happens on the way, a watch ends with what the API server has."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.adapters.kubernetes.test_watched import House, house

GARBAGE = (b"no json\n", b'{"type": "MODIFIED", "object": 7}\n', b'{"type": "ADD', b"\n\n", b"\xff\n")

names = st.sampled_from("abcd")
steps = st.one_of(
    st.tuples(st.just("put"), names),
    st.tuples(st.just("hide"), names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("miss"), names),
    st.tuples(st.just("cut"), st.just("")),
    st.tuples(st.just("expire"), st.just("")),
    st.tuples(st.just("bookmark"), st.just("")),
    st.tuples(st.just("garbage"), st.sampled_from("01234")),
    st.tuples(st.just("wait"), st.just("")),
)


async def _take(here: House, what: str, name: str, number: int) -> None:
    server = here.server
    if what in ("put", "hide"):
        server.put(name, spec="hidden" if what == "hide" else str(number))
    elif what == "delete" and name in server.objects:
        server.delete(name)
    elif what == "miss":
        queues, server.queues = server.queues, []
        if name in server.objects:
            server.delete(name)
        else:
            server.put(name, spec=str(number))
        server.queues, server.oldest = queues, server.version
        server.say(None)
    elif what == "cut":
        server.say(None)
    elif what == "expire":
        server.oldest = server.version
        server.say(None)
    elif what == "bookmark":
        server.tell("BOOKMARK", {"metadata": {"resourceVersion": str(server.version)}})
    elif what == "garbage":
        server.say(GARBAGE[int(name)])
    elif what == "wait":
        await asyncio.sleep(0.005)


@settings(max_examples=40)
@given(st.lists(steps, max_size=25))
def test_any_way_ends_with_what_the_api_server_has(way: list[tuple[str, str]]) -> None:
    async def go() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with house(Path(folder), a="1", b="hidden") as here:
                await here.server.watched()
                for number, (what, name) in enumerate(way):
                    await _take(here, what, name, number)
                wanted = {n: v["spec"] for n, v in here.server.objects.items() if v["spec"] != "hidden"}
                await here.until(lambda: here.known == wanted and len(here.server.queues) == 1)
                await here.until(lambda: here.watched.trouble is None)

    asyncio.run(go())
