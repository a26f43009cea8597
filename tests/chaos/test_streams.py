"""`kill -9` of each process in the middle of a stream: it goes on, or is visibly broken; never cut as if whole."""

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.chaos.kit import PARTS, ChaosUp, Part, serves_again
from tests.chaos.rows import Row
from tests.serving import running

TOKENS = 150
CHUNK_S = 0.02
TOLD: dict[Part, set[str]] = {
    "controller": {"whole"},
    "portal": {"broken"},
    "host": {"broken", "error"},
    "engine": {"broken", "error"},
}
"""How the stream may end when this part is killed in its middle."""


def read(up: ChaosUp, wanted: int, reached: threading.Event) -> tuple[str, int]:
    """Read one stream, say when `wanted` chunks are here; how it ended (whole, error, broken, SILENT), and how many."""
    body = {"model": "chat", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    chunks, last = 0, ""
    try:
        with httpx.stream("POST", f"http://{up.portal}/v1/chat/completions", json=body, timeout=60) as answer:
            assert answer.status_code == 200
            for line in answer.iter_lines():
                last = line.removeprefix("data: ") or last
                chunks += '"content"' in line
                if chunks >= wanted:
                    reached.set()
    except httpx.TransportError:
        return "broken", chunks
    if last == "[DONE]":
        return ("whole" if chunks == TOKENS else "SILENT"), chunks
    return ("error" if last.startswith("{") and "error" in json.loads(last) else "SILENT"), chunks


def broken(up: ChaosUp, part: Part, chance: random.Random) -> tuple[str, int]:
    """Kill the part after a chance number of chunks; how the stream ended, and after how many."""
    reached = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        stream = pool.submit(read, up, chance.randint(1, TOKENS // 2), reached)
        assert reached.wait(60)
        up.kill(part)
        if part == "controller":
            up.begin()
        return stream.result()


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.prove)])
def test_killed_in_the_middle_of_a_stream(up: ChaosUp, chance: random.Random, row: Row, rounds: int) -> None:
    up.serve("chat", chunk_s=CHUNK_S, tokens=TOKENS)
    ends: dict[str, list[str]] = {part: [] for part in PARTS}
    with running(up):
        serves_again(up)
        for _ in range(rounds):
            for part in chance.sample(PARTS, len(PARTS)):
                how, chunks = broken(up, part, chance)
                ends[part].append(how)
                assert how in TOLD[part], f"{part} killed after {chunks} chunks: {how}"
                serves_again(up)
        up.never_two()
    row.tell(
        done=f"each process killed {rounds} time(s), after a chance number of chunks",
        outcome="; ".join(f"{part}: {', '.join(sorted(set(found)))}" for part, found in ends.items()),
        figure=f"{rounds * len(PARTS)} streams, none silently cut",
    )
