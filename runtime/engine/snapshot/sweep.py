"""Which images go: pure. And their removal."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from runtime.engine.snapshot.images import BadImageError, ImageInUseError, Images, Place
from runtime.engine.snapshot.manifest import SnapshotManifest


@dataclass(frozen=True, slots=True)
class Going:
    """One that goes, and why."""

    name: str
    why: str


def going(
    images: Iterable[tuple[str, SnapshotManifest | None]], host: Mapping[str, str], now: datetime, most_bytes: int
) -> tuple[Going, ...]:
    """What goes of `images`, given newest first, None for one that is not whole.

    What no start can ever use again: not whole, expired, of another boot or machine; an older one of the same engine;
    and the oldest ones where all that stay are more than `most_bytes`.
    """
    gone, kept_bytes, engines = [], 0, set()
    for name, manifest in images:
        if manifest is None:
            gone.append(Going(name, "it is not whole"))
            continue
        engine = (manifest.made_from.model_dump_json(), manifest.model_digest, manifest.key)
        if why := _useless(manifest, host, now):
            gone.append(Going(name, why))
        elif engine in engines:
            gone.append(Going(name, "there is a newer one of the same engine"))
        elif kept_bytes + manifest.size_bytes > most_bytes:
            gone.append(Going(name, f"all images together may have {most_bytes} bytes"))
        else:
            engines.add(engine)
            kept_bytes += manifest.size_bytes
    return tuple(gone)


def _useless(manifest: SnapshotManifest, host: Mapping[str, str], now: datetime) -> str | None:
    if manifest.expires_at <= now:
        return "it has expired"
    lost = [name for name in ("machine", "boot") if manifest.host.get(name) != host.get(name)]
    return f"it is of another {lost[0]}" if lost else None


def sweep(images: Images, host: Mapping[str, str], now: datetime, most_bytes: int) -> tuple[Going, ...]:
    """Remove what goes; what was removed. One in use stays until the next time. Raises OSError."""
    done = []
    for one in going([(place.root.name, _read(place)) for place in images.places()], host, now, most_bytes):
        with contextlib.suppress(ImageInUseError, FileNotFoundError):
            images.remove(images.place(one.name))
            done.append(one)
    return tuple(done)


def _read(place: Place) -> SnapshotManifest | None:
    try:
        return place.read()
    except BadImageError:
        return None
