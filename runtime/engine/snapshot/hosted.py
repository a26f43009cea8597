"""What one host does with images: which one a start may take, and what is known without looking at a model."""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from runtime.cache.inputs import fingerprint_of
from runtime.contract import EngineSpec
from runtime.engine.argv import engine_arguments, import_environment
from runtime.engine.snapshot.criu import Criu
from runtime.engine.snapshot.host_facts import host_facts
from runtime.engine.snapshot.images import MOST_BYTES, BadImageError, Images, Place
from runtime.engine.snapshot.manifest import MadeFrom, SnapshotManifest, made_from
from runtime.engine.snapshot.saved_files import damaged
from runtime.engine.snapshot.sweep import Going, sweep
from runtime.engine.snapshot.usable import Asked, why_not


@dataclass(frozen=True, slots=True)
class Choice:
    """The image that a start takes, or why it takes none."""

    place: Place | None = None
    manifest: SnapshotManifest | None = None
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The images of one host. `most_bytes`: all of them together."""

    images: Images
    criu: Criu
    clock: Callable[[], datetime]
    most_bytes: int = MOST_BYTES
    facts: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", host_facts(self.criu.version))

    def promising(self, spec: EngineSpec) -> bool:
        """Whether there is one of `spec` that only its model can still speak against: quick, and reads no model."""
        try:
            wanted = wanted_of(spec)
        except ValueError:  # an environment that no engine may have: the start says so
            return False
        return any(
            why_not(m, p.kept(), Asked(wanted, m.model_digest, m.key, self.facts, self.clock())) is None
            for p, m in self._whole()
        )

    async def choose(self, spec: EngineSpec, model_digest: str | None) -> Choice:
        """The newest usable one for a start of `spec`, read through where anybody has touched it. Never raises."""
        try:
            return await asyncio.to_thread(self._choose, spec, model_digest)
        except Exception as error:  # a start without an image is merely slower
            return Choice(why_not=f"no image can be looked at: {error}")

    def sweep(self) -> tuple[Going, ...]:
        """Remove what no start can use. Raises OSError."""
        return sweep(self.images, self.facts, self.clock(), self.most_bytes)

    def _choose(self, spec: EngineSpec, model_digest: str | None) -> Choice:
        asked = Asked(wanted_of(spec), model_digest, key_of(spec), self.facts, self.clock())
        reason = "there is no image of it"
        for place, manifest in self._whole():
            why = why_not(manifest, place.kept(), asked)
            if why is None and (why := damaged(place, manifest.files)):
                self.images.put_aside(place, why)
            if why is None:
                return Choice(place, manifest)
            if manifest.made_from.service == spec.service:
                reason = f"{manifest.id}: {why}"
        return Choice(why_not=reason)

    def _whole(self) -> list[tuple[Place, SnapshotManifest]]:
        found = []
        for place in self.images.places():
            try:
                found.append((place, place.read()))
            except BadImageError:  # unfinished, or put aside
                continue
        return found


def wanted_of(spec: EngineSpec) -> MadeFrom:
    """What an engine of `spec` is begun with here. Raises ValueError on an environment that none may have."""
    return made_from(spec, import_environment(spec, os.environ))


def key_of(spec: EngineSpec) -> str | None:
    """The fingerprint's key of `spec` here, None where there is none."""
    try:
        environ = import_environment(spec, os.environ)
        return fingerprint_of(spec, environ=environ, args=engine_arguments(spec, 1, None)[2:]).key
    except Exception:  # a driver or a model's structure that tells nothing: both sides then have none
        return None
