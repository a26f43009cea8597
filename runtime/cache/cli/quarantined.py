"""`quarantine ls` and `release`: the bundles that this host does not restore for a while."""

import json
from datetime import UTC, datetime

import typer

from runtime.cache.cli.failures import Refused, say, visible
from runtime.cache.cli.places import OwnShelf
from runtime.cache.cli.terminal import age, table
from runtime.cache.quarantine import EXPIRY


def ls(own: OwnShelf, *, as_json: bool) -> None:
    """List what is put aside, and why."""
    now, record = datetime.now(UTC), own.quarantine
    rows = record.rows(now)
    if damage := record.damage:
        say(f"warning: {damage}")
    if as_json:
        told = [
            {"digest": row.digest, "at": row.at.isoformat(), "until": (row.at + EXPIRY).isoformat(), "why": row.why}
            for row in rows
        ]
        typer.echo(json.dumps(told))
    elif rows:
        typer.echo("\n".join(table(("digest", "since", "why"), [(r.digest[:12], age(r.at, now), r.why) for r in rows])))
    else:
        say("no bundle is quarantined here")


def release(prefixes: list[str], own: OwnShelf, *, everything: bool) -> None:
    """Let bundles be restored again. Raises Refused where a digest is not held or not clear; then none is released."""
    rows = own.quarantine.rows(datetime.now(UTC))
    wanted = (
        {row.digest for row in rows} if everything else {_one(prefix, [r.digest for r in rows]) for prefix in prefixes}
    )
    if not wanted:
        say("no bundle is quarantined here")
    for digest in sorted(wanted):
        own.quarantine.release(digest)
        typer.echo(visible(f"{digest[:12]} may be restored again"))


def _one(prefix: str, digests: list[str]) -> str:
    found = [digest for digest in digests if prefix and digest.startswith(prefix)]
    if len(found) != 1:
        how = (
            f"{len(found)} quarantined digests begin so: give more digits" if found else "no such digest is quarantined"
        )
        raise Refused(f"{prefix!r}: {how}; `pilotlight cache quarantine ls` shows them")
    return found[0]
