"""What the commands need of the machine they run on: its clock, its time zone, its terminal."""

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from rich.console import Console

from activator_ext.app.cli.times import TimeError, parse_zone

LOCALTIME = Path("/etc/localtime")
"""The machine's zone: a link into the zone database on Linux and macOS."""


def now() -> datetime:
    """The wall clock, aware UTC."""
    return datetime.now(UTC)


def local_zone(*, typed: bool = False) -> ZoneInfo:
    """The user's zone with its clock changes: `TZ` where it names one, else the machine's, else UTC.

    `typed`: a time that the user typed is read in it; a `TZ` that names no zone is then a TimeError, not passed over.
    """
    name = os.environ.get("TZ", "").removeprefix(":")
    if name.startswith("/"):
        return _zone_of_file(Path(name))
    if name:
        try:
            return parse_zone(name)
        except TimeError as error:
            if typed:
                raise TimeError(f"the environment's TZ: {error}; or give the zone with --tz") from None
    return _zone_of_file(LOCALTIME)


def _zone_of_file(path: Path) -> ZoneInfo:
    _, found, key = str(path.resolve()).partition("/zoneinfo/")
    if found:
        with contextlib.suppress(TimeError):
            return parse_zone(key)
    with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
        return ZoneInfo.from_file(file, key="local")
    return ZoneInfo("UTC")


def console(*, stderr: bool = False) -> Console:
    """Where tables go; text is shown as it is, never read as markup."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)
