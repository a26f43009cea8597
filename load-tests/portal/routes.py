"""Does a proxy route by the body's `model`? One that does not is worth no figures."""

import contextlib
import http.client
import json
from itertools import pairwise

from portal.bodies import MODELS, chat, decoys
from portal.machine import BenchFailed
from portal.subjects import Subject

_UNKNOWN = "no-such-model"


def check(subject: Subject) -> str:
    """Ask for each model, named first and last, over one connection, and for one that nobody serves.

    Raises BenchFailed for a wrong route. Then bodies that hold another `"model":` where it means nothing: how many of
    them were routed right is told, but does not fail a peer that can do no better.
    """
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", subject.ports[0], timeout=10)) as connection:
        for model in MODELS * 2:
            for first in (True, False):
                got = _answered_by(connection, chat(model, first=first))
                if got != model:
                    raise BenchFailed(f"{subject.name} sent a request for {model} to {got}")
        got = _answered_by(connection, chat(_UNKNOWN, first=True))
        if got != "status 404":
            raise BenchFailed(f"{subject.name} answered {got} for a model that nobody serves, not 404")
        bodies = [(model, body) for model, other in pairwise(MODELS) for body in decoys(model, other)]
        right = sum(_answered_by(connection, body) == model for model, body in bodies)
    if subject.name == "portal" and right != len(bodies):
        raise BenchFailed(f"the portal was misled by {len(bodies) - right} of {len(bodies)} bodies that hold decoys")
    return f"{right} of {len(bodies)}"


def check_direct(subject: Subject) -> None:
    """The null backend must tell a wrong route, else no check of routes means anything. Raises BenchFailed."""
    for model, port in zip(MODELS, subject.ports, strict=True):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
            for asked in MODELS:
                got, wanted = (
                    _answered_by(connection, chat(asked, first=False)),
                    model if asked == model else "status 421",
                )
                if got != wanted:
                    raise BenchFailed(
                        f"the null backend of {model} answered {got} to a request for {asked}, not {wanted}"
                    )


def _answered_by(connection: http.client.HTTPConnection, body: bytes) -> str:
    """The model that answered, or the status if it is not 200."""
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    return str(json.loads(text)["model"]) if answer.status == 200 else f"status {answer.status}"
