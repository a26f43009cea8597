"""`push` and `pull`: bundles from here to a store and back, never one that was not proven first."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import typer

from runtime.cache.cli.bundles import prove
from runtime.cache.cli.failures import Refused, visible
from runtime.cache.cli.interrupt import run
from runtime.cache.cli.places import OwnShelf, opened
from runtime.cache.cli.reference import Here, InStore, here, parse
from runtime.cache.cli.terminal import Line, size
from runtime.cache.labels import labels
from runtime.cache.stores.base import BundleRef, Store, StoreCause, StoreFault
from runtime.cache.trust import TrustPolicy


@dataclass(frozen=True, slots=True)
class Moved:
    """What came of one. `ref`: where it is now; `why`: it did not go."""

    source: str
    ref: BundleRef | None = None
    why: str | None = None
    there_already: bool = False

    def as_json(self) -> dict[str, object]:
        """For programs."""
        if self.ref is None:
            return {"source": self.source, "moved": False, "error": self.why}
        told = {"key": self.ref.key, "digest": self.ref.digest, "size_bytes": self.ref.size_bytes}
        return {"source": self.source, "moved": True, "there_already": self.there_already, **told}

    def line(self) -> str:
        """For people."""
        if self.ref is None:
            return f"refused  {self.why}"
        how = "is there already" if self.there_already else f"{size(self.ref.size_bytes)}"
        return f"done     {self.source}: {how}"


def push(url: str, names: list[str], *, own: OwnShelf, trust: TrustPolicy, as_json: bool) -> bool:
    """Publish bundles to a store; none named: the newest of each key of the own shelf. Whether all went."""

    async def work() -> list[Moved]:
        wanted: Sequence[Path | InStore] = [parse(name, own) for name in names] or await _all(own.needed_url(), own)
        async with opened(url) as store:
            with Line() as line:
                return [await _move(each, store, trust, line) for each in wanted]

    return _tell(run(work()), as_json)


def pull(url: str, prefixes: list[str], *, own: OwnShelf, into: str | None, trust: TrustPolicy, as_json: bool) -> bool:
    """Fetch bundles of a store into the own shelf or `into`; none named: the newest of each key. Whether all came."""

    async def work() -> list[Moved]:
        wanted = [InStore(url, prefix) for prefix in prefixes] or await _all(url, own)
        if into is None:
            own.make_store()
        async with opened(into or own.store_url) as store:
            with Line() as line:
                return [await _move(each, store, trust, line) for each in wanted]

    return _tell(run(work()), as_json)


def _tell(moved: list[Moved], as_json: bool) -> bool:
    if as_json:
        typer.echo(json.dumps([each.as_json() for each in moved]))
    else:
        for each in moved:
            typer.echo(visible(each.line()))
    return all(each.ref is not None for each in moved)


async def _all(url: str, own: OwnShelf) -> list[InStore]:
    """The newest of each key, but for what is quarantined here."""
    held = {row.digest for row in own.quarantine.rows(datetime.now(UTC))}
    async with opened(url) as store:
        newest = {ref.key: ref for ref in await store.list() if ref.digest not in held}
    if not newest:
        raise Refused(f"{url}: no bundle is there: a start, or `pilotlight cache build`, makes some")
    return [InStore(url, ref.key, ref) for ref in newest.values()]


async def _move(named: Path | InStore, target: Store, trust: TrustPolicy, line: Line) -> Moved:
    """One bundle to `target`. What cannot be had or taken is said and keeps no other from going."""
    source = str(named) if isinstance(named, Path) else f"{named.url}#{named.prefix[:12]}"
    try:
        async with here(named, line) as found:
            return await _publish(found, target, trust, line)
    except (StoreFault, Refused) as fault:
        return Moved(source, why=str(fault))


async def _publish(found: Here, target: Store, trust: TrustPolicy, line: Line) -> Moved:
    proof = await prove(found, trust, line)
    if proof.verified is None:
        return Moved(found.place, why=str(proof.fault))
    verified = proof.verified
    line.show(f"publishing {verified.manifest.key[:12]} to {target.place}")
    key, digest = verified.manifest.key, verified.digest
    newest = await _newest(target, key)
    if newest is not None and newest.digest == digest:
        return Moved(found.place, newest, there_already=True)
    ref = await target.publish(key, found.file, digest, labels(verified.manifest, verified.signer.key_id))
    return Moved(found.place, ref)


async def _newest(store: Store, key: str) -> BundleRef | None:
    """A store that is not there yet has none: publishing makes it."""
    try:
        return await store.newest(key)
    except StoreFault as fault:
        if fault.cause is StoreCause.ABSENT:
            return None
        raise
