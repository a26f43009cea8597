"""`pilotlight status` and `starts`: how warm services are, and where a start's time went."""

import time
from collections.abc import Callable
from pathlib import Path

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from activator_ext.app.cli.client import ApiClient
from activator_ext.app.cli.render import (
    service_detail,
    services_table,
    starts_table,
)
from activator_ext.app.cli.terminal import console, local_zone, now
from activator_ext.app.cli.waterfall import waterfall
from activator_ext.app.streams import interruptible
from runtime.contract import StartRecord

WATCH_EVERY_S = 1.0
"""How often `status -w` asks again; each answer costs the controller under a millisecond."""


def status(state: Path, service: str | None, *, watch: bool, as_json: bool) -> None:
    """All services, or one in full; with `watch`, again and again until Ctrl-C."""
    if watch and as_json:
        raise typer.BadParameter("--watch draws a table in place: leave out --watch or --json")
    with ApiClient(state) as client:
        asked = None if service is None else client.resolve(service)
        if as_json:
            typer.echo(client.services().text if asked is None else client.service(asked).text)
            return
        zone = local_zone()

        def draw() -> RenderableType:
            if asked is not None:
                return service_detail(client.service(asked).value, zone, now())
            services = client.services().value
            return services_table(services, zone, now()) if services else Text("no service: the files name none")

        if watch:
            redraw(console(), draw, time.sleep)
        else:
            console().print(draw())


def redraw(out: Console, draw: Callable[[], RenderableType], sleep: Callable[[float], None]) -> None:
    """Draw in place until Ctrl-C, which is the way to end it and no failure."""
    try:
        with interruptible(), Live(draw(), console=out, auto_refresh=False) as live:
            while True:
                sleep(WATCH_EVERY_S)
                live.update(draw(), refresh=True)
    except KeyboardInterrupt:
        return


def starts(state: Path, service: str, *, limit: int, start_id: str | None, as_json: bool) -> None:
    """The newest starts and the waterfall of the newest, or of the one asked for."""
    with ApiClient(state) as client:
        if start_id is not None:
            one = client.start(start_id)
            typer.echo(one.text if as_json else _waterfall(one.value))
            return
        asked = client.resolve(service)
        found = client.starts(asked, limit)
    if as_json:
        typer.echo(found.text)
    elif not found.value:
        typer.echo(f"{asked} has never been started")
    else:
        console().print(Group(starts_table(found.value, local_zone(), now()), Text("")))
        typer.echo(_waterfall(found.value[0]))


def _waterfall(record: StartRecord) -> str:
    out = console()
    ascii_only = not out.encoding.lower().startswith("utf")
    return waterfall(record, now(), width=min(out.width, 120), ascii_only=ascii_only)
