"""A word that nobody says by chance, requests that hold it, and the search for it in all that an `up` leaves."""

import json
from collections.abc import Iterator

import psutil

from tests.serving import Up

CANARY = "Xylophonquark"
JSON = {"Content-Type": "application/json"}


def requests(model: str) -> Iterator[bytes]:
    """Bodies of chat requests that are answered, refused by the engine, refused by the portal, or no JSON."""
    said = [{"role": "user", "content": CANARY}]
    for fields in (
        {"messages": said},
        {"messages": said, "stream": True, "max_tokens": 4},
        {"messages": said, "max_tokens": CANARY},
        {"messages": said, "temperature": -5},
        {"messages": CANARY},
        {"messages": [{"role": CANARY, "content": {CANARY: CANARY}}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"http://{CANARY}"}}]}]},
        {"messages": said, "user": CANARY, "tools": [{"type": "function", "function": {"name": CANARY}}]},
        {"messages": said * 400},
    ):
        yield json.dumps({"model": model, **fields}).encode()
    yield json.dumps({"model": model, "messages": said}).encode()[:-3]


def traces(up: Up, word: str) -> list[str]:
    """Where `word` is found: files of the state directory, what `up` printed, events, arguments of processes."""
    sought = word.encode()
    found = [str(path) for path in up.state.rglob("*") if path.is_file() and sought in path.read_bytes()]
    found += ["up's output"] if word in up.said() else []
    found += ["events"] if word in up.api("GET", "/v1/events?limit=1000").text else []
    found += ["metrics"] if word in up.api("GET", "/metrics").text else []
    for process in up.processes():
        try:
            found += [f"arguments of {process.name()}"] if word in " ".join(process.cmdline()) else []
        except psutil.Error:
            continue
    return found
