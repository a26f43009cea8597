"""What the CLI says when nothing runs, something else runs, or answers get lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from activator_ext.app.cli.client import ApiClient
from activator_ext.app.cli.failures import CliError
from activator_ext.app.servers import bind_tcp
from activator_ext.app.views import HoldRequest
from tests.unit.app.cli_bench import Cli, publish, serving
from tests.unit.app.fakes import FakeController

COMMANDS = [
    ["status"],
    ["starts", "chat"],
    ["prewarm", "chat", "--for", "1h"],
    ["holds"],
    ["preview", "chat"],
    ["events"],
]


@pytest.mark.parametrize("args", COMMANDS, ids=lambda args: args[0])
def test_without_an_up_every_command_says_how_to_start_one(tmp_path: Path, args: list[str]) -> None:
    result = Cli(tmp_path).run(*args, code=1)
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: no pilotlight up is running on {tmp_path}: start one with `pilotlight up")


def test_an_up_that_died_is_told_as_such(tmp_path: Path) -> None:
    with bind_tcp("127.0.0.1:0", "--api-listen") as bound:  # bound, never listening: connections are refused
        publish(tmp_path, f"http://127.0.0.1:{bound.getsockname()[1]}")
        error = Cli(tmp_path).run("status", code=1).stderr
    assert "no pilotlight up is running" in error
    assert "cannot be reached" in error


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("token", "another\n", "is not the one that the running `up` took"),
        ("token", None, "run as the user of `pilotlight up`"),
        ("api.json", "{", "restart `pilotlight up`"),
        ("api.json", "[]", "names no API"),
        ("api.json", '{"url": 7}', "names no API"),
    ],
)
def test_a_state_directory_that_is_not_whole(state: Path, cli: Cli, file: str, content: str | None, says: str) -> None:
    if content is None:
        (state / file).unlink()
    else:
        (state / file).write_text(content)
    assert says in cli.run("status", code=1).stderr


@contextmanager
def lossy(state: Path, lost: list[type[httpx.TransportError]], keys: list[str]) -> Iterator[ApiClient]:
    """A client whose first answers are lost after the API has acted on the request."""
    with ApiClient(state) as client, client._http as real:

        def pass_on(request: httpx.Request) -> httpx.Response:
            keys.append(request.headers.get("Idempotency-Key", ""))
            response = real.send(request)
            if lost:
                raise lost.pop(0)("gone", request=request)
            return response

        transport = httpx.MockTransport(pass_on)
        client._http = httpx.Client(base_url=real.base_url, headers=real.headers, transport=transport)
        yield client


def test_a_hold_whose_answer_is_lost_is_asked_for_again_and_made_once(state: Path, controller: FakeController) -> None:
    keys: list[str] = []
    with lossy(state, [httpx.ReadError], keys) as client:
        hold = client.add_hold(HoldRequest(service="team-a/chat", for_s=60), "key").value
    assert keys == ["key", "key"]
    assert [hold] == list(controller.held.values())


def test_an_api_that_does_not_answer_is_told_as_such(state: Path) -> None:
    with lossy(state, [httpx.ReadTimeout], []) as client, pytest.raises(CliError, match=r"no answer.*pid 4711"):
        client.holds()


def test_another_program_on_the_port_is_told_as_such(tmp_path: Path) -> None:
    other = FastAPI()

    @other.get("/v1/services")
    def answer() -> dict[str, str]:
        return {"hello": "world"}

    with serving(other) as url:
        publish(tmp_path, url)
        assert "another version runs there" in Cli(tmp_path).run("status", code=1).stderr
        assert "is not Pilotlight" in Cli(tmp_path).run("holds", code=1).stderr
