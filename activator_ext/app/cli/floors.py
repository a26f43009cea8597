"""`pilotlight prewarm` and `holds`: floors that somebody asks for, always until a time."""

import secrets
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import typer
from pydantic import ValidationError

from activator_ext.app.cli.client import ApiClient
from activator_ext.app.cli.failures import CliError
from activator_ext.app.cli.render import clock, hold_line, holds_table, progress_line
from activator_ext.app.cli.terminal import console, local_zone, now
from activator_ext.app.cli.times import parse_duration, parse_instant, parse_zone
from activator_ext.app.streams import interruptible
from activator_ext.app.views import HoldRequest, HoldView, ServiceStatus
from activator_ext.core.model import ServiceId, Warmth
from activator_ext.core.visible import visible

WAIT_EVERY_S = 0.5
"""How often `prewarm --wait` asks how far the start is."""


def prewarm(
    state: Path,
    service: str,
    *,
    replicas: int,
    ready_by: str | None,
    at_once: bool,
    duration: str,
    zone_name: str | None,
    reason: str,
    wait: bool,
    as_json: bool,
) -> None:
    """Ask for a floor; with `wait`, stay until it is warm or cannot be."""
    if ready_by is not None and at_once:
        raise typer.BadParameter("--ready-by and --now exclude each other: leave one out")
    zone = local_zone(typed=True) if zone_name is None else parse_zone(zone_name)
    by = None if ready_by is None else parse_instant(ready_by, now(), zone)
    for_s = parse_duration(duration)
    with ApiClient(state) as client:
        asked = client.resolve(service)
        request = _request(asked, replicas, by, for_s, reason)
        answer = client.add_hold(request, secrets.token_hex(16))
        if as_json:
            typer.echo(answer.text)
        else:
            typer.echo(hold_line(answer.value, zone, now()))
        if wait:
            wait_until_warm(client, asked, answer.value, zone, time.sleep)


def holds(state: Path, *, release: str | None, as_json: bool) -> None:
    """List the holds, or end one now."""
    with ApiClient(state) as client:
        if release is not None:
            if not release:
                raise CliError("--release needs the id of a hold; `pilotlight holds` lists them")
            client.release_hold(release)
            if not as_json:
                typer.echo(f"hold {release} released")
            return
        answer = client.holds()
    if as_json:
        typer.echo(answer.text)
    elif answer.value:
        console().print(holds_table(answer.value, local_zone(), now()))
    else:
        typer.echo("no holds; ask for one with `pilotlight prewarm SERVICE --for 1h`")


def wait_until_warm(
    client: ApiClient, service: ServiceId, hold: HoldView, zone: ZoneInfo, sleep: Callable[[float], None]
) -> None:
    """Show on stderr how far it is until the hold is met; raises CliError if a start fails or the hold ends before."""
    out = console(stderr=True)
    said = ""
    try:
        with interruptible(), out.status("") as spinner:
            while True:
                status = client.service(service).value
                if _warm(status) >= hold.replicas:
                    break
                _refuse(status, hold, now(), zone)
                line = progress_line(status, now())
                spinner.update(line)
                if not out.is_terminal and line.partition(",")[0] != said:
                    said = line.partition(",")[0]
                    out.print(line)
                sleep(WAIT_EVERY_S)
    except KeyboardInterrupt:
        raise CliError(f"stopped watching; hold {hold.id} stays until {clock(hold.until, zone, now())}") from None
    out.print(f"{service} is warm")


def _request(service: ServiceId, replicas: int, by: datetime | None, for_s: float, reason: str) -> HoldRequest:
    try:
        return HoldRequest(service=str(service), for_s=for_s, replicas=replicas, ready_by=by, reason=reason)
    except ValidationError as error:
        options = {"for_s": "--for", "replicas": "--replicas", "reason": "--reason"}
        texts = [f"{options.get(str(each['loc'][0]), 'it')}: {each['msg']}" for each in error.errors()]
        raise typer.BadParameter("; ".join(texts)) from error


def _warm(status: ServiceStatus) -> int:
    return sum(each.warmth in (Warmth.WARM, Warmth.BUSY) and not each.draining for each in status.replicas)


def _refuse(status: ServiceStatus, hold: HoldView, at: datetime, zone: ZoneInfo) -> None:
    failure = status.last_failure
    if failure is not None and failure.at >= hold.created_at:
        raise CliError(
            f"the start failed: {visible(failure.message)}; hold {hold.id} stays until "
            f"{clock(hold.until, zone, at)} and is tried again (`pilotlight status {status.service}`)"
        )
    if at >= hold.until:
        raise CliError(f"hold {hold.id} ended before {status.service} was warm: ask for longer with --for")
