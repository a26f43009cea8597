"""Is this image usable for this start, here and now? Pure: facts come in, a reason not to comes out, or None."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from runtime.engine.snapshot.manifest import MadeFrom, SnapshotManifest

_WORDS = {
    "machine": "on another machine",
    "boot": "before this machine was booted",
    "kernel": "under another kernel",
    "processor": "on another processor",
    "user": "by another user",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a start has: the engine wanted, the model's digest (None: it has none), the fingerprint's key, the host."""

    made_from: MadeFrom
    model_digest: str | None
    key: str | None
    host: Mapping[str, str]
    now: datetime


@dataclass(frozen=True, slots=True)
class Kept:
    """How the image's directory stands on the disk: its owner, the permission bits, and whose process asks."""

    owner: int
    mode: int
    user: int


def why_not(manifest: SnapshotManifest, kept: Kept, asked: Asked) -> str | None:
    """The first reason not to restore it, None where nothing speaks against it."""
    return (
        _others_may_write(kept)
        or _elsewhere(manifest.host, asked.host)
        or _another_engine(manifest, asked)
        or _too_old(manifest, asked.now)
    )


def _others_may_write(kept: Kept) -> str | None:
    if kept.owner != kept.user:
        return f"its directory belongs to user {kept.owner}, not to {kept.user}"
    return f"its directory is open to others (mode {kept.mode:04o}): it must be 0700" if kept.mode & 0o077 else None


def _elsewhere(made: Mapping[str, str], here: Mapping[str, str]) -> str | None:
    for name in (*_WORDS, *sorted({*made, *here} - set(_WORDS))):
        if made.get(name) != here.get(name):
            words = _WORDS.get(name)
            return (
                f"it was made {words}"
                if words
                else f"it was made with {name} {made.get(name)}, here is {here.get(name)}"
            )
    # Unknown on both sides is no proof that they are the same.
    unknown = [name for name in ("machine", "boot") if here.get(name) in (None, "unknown")]
    return f"this host does not tell its {unknown[0]} id" if unknown else None


def _another_engine(manifest: SnapshotManifest, asked: Asked) -> str | None:
    made, wanted = manifest.made_from, asked.made_from
    if made.service != wanted.service:
        return f"it is of {made.service}"
    if made.platform != wanted.platform:
        return f"it is for {made.platform}"
    if made.args != wanted.args:
        return "its engine has other arguments"
    if made.served_names != wanted.served_names:
        return "its engine serves other names"
    if changed := sorted(k for k in {*made.env, *wanted.env} if made.env.get(k) != wanted.env.get(k)):
        return f"its engine has another {changed[0]} in its environment"
    if asked.model_digest is None or manifest.model_digest != asked.model_digest:
        return "its engine has other weights"
    return "its engine has another fingerprint" if manifest.key != asked.key else None


def _too_old(manifest: SnapshotManifest, now: datetime) -> str | None:
    if manifest.expires_at <= now:
        return f"it expired at {manifest.expires_at.isoformat(timespec='seconds')}"
    return "it is from the future: a clock was set back" if manifest.created_at > now else None
