"""`ls` and `gc`: what stores hold, and what of it goes."""

import json
import math
from datetime import UTC, datetime

import typer

from runtime.cache.cli.failures import say
from runtime.cache.cli.interrupt import run
from runtime.cache.cli.places import OwnShelf, opened
from runtime.cache.cli.terminal import age, seconds, size, table
from runtime.cache.stores.base import BundleRef, StoreCause, StoreFault
from runtime.cache.stores.keep import Keep, to_delete
from runtime.cache.trust import TrustPolicy

_HEAD = ("key", "digest", "age", "size", "model", "arguments", "vllm", "signed by", "saves", "")


def ls(urls: list[str], *, own: OwnShelf, trust: TrustPolicy, as_json: bool) -> None:
    """List the bundles of each store, oldest first."""
    now = datetime.now(UTC)
    held = {row.digest: row.why for row in own.quarantine.rows(now)}
    signers = {trusted.key.id: trusted.name for trusted in trust.keys}
    listed = [_row(place, ref, held, signers) for place, refs in run(_listed(urls, own)) for ref in refs]
    if as_json:
        typer.echo(json.dumps(listed))
        return
    if damage := own.quarantine.damage:
        say(f"warning: {damage}")
    for place in dict.fromkeys(str(row["store"]) for row in listed):
        if len({row["store"] for row in listed}) > 1:
            typer.echo(f"{place}:")
        rows = [_cells(row, now) for row in listed if row["store"] == place]
        typer.echo("\n".join(table(_HEAD, rows)))
    if not listed:
        say(f"no bundle in {', '.join(urls) or own.store_url}")


async def _listed(urls: list[str], own: OwnShelf) -> list[tuple[str, tuple[BundleRef, ...]]]:
    found = []
    for url in urls or [own.store_url]:
        async with opened(url) as store:
            try:
                found.append((url, await store.list()))
            except StoreFault as fault:
                # No host has begun here yet; a store that was named must be there.
                if urls or fault.cause is not StoreCause.ABSENT:
                    raise
    return found


def _row(place: str, ref: BundleRef, held: dict[str, str], signers: dict[str, str]) -> dict[str, object]:
    told = ref.metadata
    signer = told.get("signed_by")
    try:
        saves = float(told["compile_s"])
    except (KeyError, ValueError):
        saves = None
    return {
        "store": place,
        "key": ref.key,
        "digest": ref.digest,
        "size_bytes": ref.size_bytes,
        "published_at": ref.published_at.isoformat(),
        "model": told.get("model"),
        "arguments": told.get("arguments"),
        "platform": told.get("platform"),
        "vllm": told.get("vllm"),
        "compile_s": saves,
        "signed_by": signer,
        "signer": None if signer is None else signers.get(signer),
        "quarantined": held.get(ref.digest),
    }


def _cells(row: dict[str, object], now: datetime) -> list[str]:
    saves, bytes_ = row["compile_s"], row["size_bytes"]
    return [
        str(row["key"])[:12],
        str(row["digest"])[:12],
        age(datetime.fromisoformat(str(row["published_at"])), now),
        size(bytes_ if isinstance(bytes_, int) else None),
        str(row["model"] or "–"),
        _short(str(row["arguments"] or "–")),
        str(row["vllm"] or "–"),
        str(row["signer"] or row["signed_by"] or "–")[:16],
        seconds(saves if isinstance(saves, float) else None),
        "quarantined" if row["quarantined"] is not None else "",
    ]


def _short(text: str, most: int = 48) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def gc(url: str | None, *, own: OwnShelf, keep: Keep, really: bool, as_json: bool) -> None:
    """Say what would go, and with `really` delete it."""
    now = datetime.now(UTC)

    async def work() -> tuple[tuple[BundleRef, ...], tuple[BundleRef, ...]]:
        async with opened(url or own.store_url) as store:
            there = await store.list()
            return there, (await store.gc(keep, now) if really else to_delete(there, keep, now))

    there, gone = run(work())
    if as_json:
        rows = [{"key": ref.key, "digest": ref.digest, "size_bytes": ref.size_bytes} for ref in gone]
        typer.echo(json.dumps({"deleted": really, "bundles": rows, "kept": len(there) - len(gone)}))
        return
    for ref in gone:
        typer.echo(f"{ref.key[:12]}  {ref.digest[:12]}  {age(ref.published_at, now)}  {size(ref.size_bytes)}")
    freed = size(sum(ref.size_bytes for ref in gone))
    if really:
        typer.echo(f"deleted {len(gone)} of {len(there)} bundles, {freed}")
    else:
        typer.echo(f"{len(gone)} of {len(there)} bundles would go, {freed}; --yes deletes them")


def bytes_of(text: str) -> int:
    """`10GiB`, `500MB`, `123` → bytes. Raises BadParameter."""
    units = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
    units |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = text[len(number) :].strip().upper()
    try:
        size = round(float(number) * units[unit])
    except (KeyError, ValueError, OverflowError) as error:
        raise typer.BadParameter(f"{text!r} is no size: write 500MB or 10GiB") from error
    if size < 0:
        raise typer.BadParameter(f"{text!r} is less than nothing: write 500MB or 10GiB")
    return size


def seconds_of(text: str) -> float:
    """`30d`, `12h`, `90m`, `45s` → seconds. Raises BadParameter."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    try:
        length_s = float(text[:-1]) * units[text[-1:]]
    except (KeyError, ValueError) as error:
        raise typer.BadParameter(f"{text!r} is no duration: write 30d, 12h or 90m") from error
    if not 0 < length_s < math.inf:
        raise typer.BadParameter(f"{text!r} is no length of time that ends: write 30d, 12h or 90m")
    return length_s
