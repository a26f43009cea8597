"""`pilotlight events`: what happened, and with `-f` what happens."""

import time
from collections.abc import Callable
from pathlib import Path

import typer

from activator_ext.app.cli.client import ApiClient
from activator_ext.app.cli.render import event_line
from activator_ext.app.cli.terminal import local_zone
from activator_ext.app.streams import interruptible

FOLLOW_EVERY_S = 0.5
"""How often `events -f` asks for more."""


def events(state: Path, *, follow: bool, limit: int, as_json: bool) -> None:
    """The newest events, oldest first; with `follow`, those to come too, until Ctrl-C."""
    with ApiClient(state) as client:
        if as_json and not follow:
            typer.echo(client.events(-limit, limit).text)
            return
        try:
            with interruptible():
                follow_events(client, limit, as_json=as_json, sleep=time.sleep if follow else None)
        except KeyboardInterrupt:
            return


def follow_events(client: ApiClient, limit: int, *, as_json: bool, sleep: Callable[[float], None] | None) -> None:
    """Print the newest `limit` events, then those to come, as lines; once only if `sleep` is None."""
    zone, after = local_zone(), -limit
    while True:
        for event in client.events(after, limit).value:
            typer.echo(event.model_dump_json() if as_json else event_line(event, zone))
            after = event.seq
        if sleep is None:
            return
        sleep(FOLLOW_EVERY_S)
