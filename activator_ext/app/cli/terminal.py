"""What the commands need of the machine they run on: its clock, its time zone, its terminal."""

import os
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from rich.console import Console

from activator_ext.app.cli.times import parse_zone

LOCALTIME = Path("/etc/localtime")
"""The machine's zone: a link into the zone database on Linux and macOS."""


def now() -> datetime:
    """The wall clock, aware UTC."""
    return datetime.now(UTC)


def local_zone() -> ZoneInfo:
    """The user's zone with its clock changes: `TZ`, else the machine's, else UTC. Raises TimeError for a wrong `TZ`."""
    if name := os.environ.get("TZ", "").lstrip(":"):
        return parse_zone(name)
    _, found, key = str(LOCALTIME.resolve()).partition("/zoneinfo/")
    if found:
        return parse_zone(key)
    if LOCALTIME.exists():
        with LOCALTIME.open("rb") as file:
            return ZoneInfo.from_file(file, key="local")
    return ZoneInfo("UTC")


def console(*, stderr: bool = False) -> Console:
    """Where tables go; text is shown as it is, never read as markup."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)
