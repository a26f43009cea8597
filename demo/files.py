"""The directory of one demo: a model, the manifests copied into it, and edits as a user makes them."""

import fcntl
import os
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from demo.models import make_model

ROOT = Path(__file__).resolve().parent.parent
MANIFESTS = Path(__file__).resolve().parent / "manifests"


@dataclass(frozen=True, slots=True)
class DemoFiles:
    """Where everything of one demo lies. `volume` is what `pvc://models/…` means."""

    root: Path

    @property
    def volume(self) -> Path:
        """The directory that plays the volume `models`."""
        return self.root / "models"

    @property
    def manifests(self) -> list[Path]:
        """The copies that `up` reads."""
        return sorted((self.root / "manifests").glob("*.yaml"))

    @property
    def policy(self) -> Path:
        """The copy that holds the PrewarmPolicy."""
        return self.root / "manifests" / "chat.yaml"

    @property
    def state(self) -> Path:
        """State directory of `up`, fresh."""
        return self.root / "state"

    @property
    def log(self) -> Path:
        """What `up` says."""
        return self.root / "up.log"


class StillServing(Exception):
    """An earlier demo serves from the directory; the message says how to stop it."""


def prepare(root: Path) -> DemoFiles:
    """Make the directory anew: what an earlier demo left in `root` is removed. Raises StillServing."""
    files = DemoFiles(root)
    owner = _owner(files.state / "lock")
    if owner is not None:
        raise StillServing(f"an earlier demo still serves from {root}: stop it with `kill -INT {owner}`")
    shutil.rmtree(root, ignore_errors=True)
    files.volume.mkdir(parents=True)
    make_model(files.volume / "tiny-a", seed=0)
    shutil.copytree(MANIFESTS, root / "manifests")
    return files


def _owner(lock: Path) -> str | None:
    """The pid of the `up` that owns a state directory, None if no one does."""
    try:
        handle = os.open(lock, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(handle, 32).decode(errors="replace").strip()
    finally:
        os.close(handle)
    return None


def at_minute(instant: datetime) -> str:
    """The cron expression of one minute of one day. Raises ValueError unless `instant` is a whole minute."""
    if instant.second or instant.microsecond:
        raise ValueError(f"{instant} is not a whole minute, the finest that cron knows")
    return f"{instant.minute} {instant.hour} {instant.day} {instant.month} *"


def add_schedule(policy: Path, *, name: str, ready_by: datetime, until: datetime) -> None:
    """Add a schedule to the PrewarmPolicy in `policy`, in one step, as an editor saves a file. Both instants in UTC."""
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(policy.read_text(encoding="utf-8")))
    spec = next(document["spec"] for document in documents if document["kind"] == "PrewarmPolicy")
    schedule = {"name": name, "timeZone": "UTC", "readyBy": at_minute(ready_by), "until": at_minute(until)}
    spec.setdefault("schedules", []).append(schedule)
    edited = policy.with_suffix(".edited")
    edited.write_text(yaml.safe_dump_all(documents, sort_keys=False), encoding="utf-8")
    edited.replace(policy)
