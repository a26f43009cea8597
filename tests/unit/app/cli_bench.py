"""The real API over a fake controller on a loopback port, and `pilotlight` run in this process against it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import TypeAdapter
from typer.testing import CliRunner

from activator_ext.app.cli import app
from activator_ext.app.servers import bind_tcp
from tests.unit.app.fakes import FakeController

TOKEN = "the-token"


@contextmanager
def serving(application: FastAPI) -> Iterator[str]:
    bound = bind_tcp("127.0.0.1:0", "--api-listen")
    bound.listen()  # a request sent before uvicorn is up waits for it
    server = uvicorn.Server(uvicorn.Config(application, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


def publish(state: Path, url: str, token: str = TOKEN) -> None:
    state.joinpath("api.json").write_text(json.dumps({"url": url, "portal_url": "http://127.0.0.1:1", "pid": 4711}))
    state.joinpath("token").write_text(token + "\n")


class Behind:
    """The facade that one server asks for all tests; each test puts its own controller behind it."""

    def __init__(self) -> None:
        self.controller = FakeController()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.controller, name)


class Cli:
    """Runs `pilotlight` in this process."""

    def __init__(self, state: Path) -> None:
        self._env = {"PILOTLIGHT_STATE": str(state), "TZ": "Europe/Madrid", "COLUMNS": "100"}

    def run(self, *args: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, list(args), env=self._env)
        assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
        return result

    def read(self, kind: Any, *args: str) -> Any:
        """Standard output of --json, which must be one JSON document and nothing else."""
        return TypeAdapter(kind).validate_json(self.run(*args, "--json").stdout)
