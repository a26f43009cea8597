"""The images of one host, each a directory that is its user's alone: made, found, put aside, removed.

An image is the memory of an engine: whoever reads it reads what that knew. So directories are 0700, files 0600, and
what has expired or is of no use any more goes. Nobody else may write where its memory comes from: a restore runs it.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from runtime.engine.snapshot.manifest import MANIFEST, SnapshotManifest
from runtime.engine.snapshot.usable import Kept

MOST_BYTES: Final = 16 * 2**30
"""All images of a host together, unless told otherwise: 1.4 GB each for a tiny model on a CPU, plus its weights."""
IMAGES: Final = ".snapshots"
"""The directory of a host's images, below its root."""
_BAD: Final = "bad"
_MOST_MANIFEST_BYTES: Final = 2**20


class BadImageError(Exception):
    """A directory that is no image, or a damaged one; `str()` says which and why."""


class ImageInUseError(Exception):
    """An engine lives from it, or it is being made."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one image lies. `run` is a mount point, the working directory that its processes know."""

    root: Path

    @property
    def images(self) -> Path:
        """What CRIU wrote."""
        return self.root / "images"

    @property
    def shm(self) -> Path:
        """What the processes shared in /dev/shm."""
        return self.root / "shm"

    @property
    def run(self) -> Path:
        """The engine's working directory when it was made; empty since."""
        return self.root / "run"

    @property
    def start(self) -> Path:
        """The files that were in `run`, for each restore a copy."""
        return self.root / "start"

    @property
    def cache(self) -> Path:
        """The engine's compile caches: its processes have compiled code mapped from there."""
        return self.root / "cache"

    @property
    def log(self) -> Path:
        """What the engine said until the image was made."""
        return self.root / "engine.log"

    @property
    def saved(self) -> tuple[Path, ...]:
        """The directories whose files are restored from."""
        return (self.images, self.shm, self.start, self.cache)

    @property
    def manifest(self) -> Path:
        """Written last."""
        return self.root / MANIFEST

    def make(self) -> None:
        """Create the directories. Raises OSError, FileExistsError where it is there."""
        self.root.mkdir(mode=0o700, parents=False)
        for directory in (self.images, self.shm, self.run, self.start, self.cache):
            directory.mkdir(mode=0o700)

    def kept(self) -> Kept:
        """How it stands on the disk; the directory above counts too. Raises OSError."""
        own, above = self.root.lstat(), self.root.parent.lstat()
        writable_above = above.st_mode & 0o022
        return Kept(own.st_uid, (own.st_mode & 0o777) | writable_above, os.geteuid())

    def read(self) -> SnapshotManifest:
        """Its manifest. Raises BadImageError."""
        try:
            with self.manifest.open("rb") as file:
                return SnapshotManifest.model_validate_json(file.read(_MOST_MANIFEST_BYTES))
        except FileNotFoundError as error:
            raise BadImageError(f"{self.root.name} is unfinished: it has no {MANIFEST}") from error
        except OSError as error:
            raise BadImageError(f"{self.root.name} cannot be read: {error.strerror}") from error
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            raise BadImageError(f"{self.root.name} has no valid {MANIFEST} ({where or 'not JSON'})") from error

    def write(self, manifest: SnapshotManifest) -> None:
        """Make it an image: the manifest, at once and for good. Raises OSError."""
        draft = self.root / f"{MANIFEST}.draft"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(manifest.model_dump_json(indent=1).encode())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.manifest)


class Images:
    """The images below `root`, which is made if it is not there. Raises OSError."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.abspath(root))
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def place(self, name: str) -> Place:
        """Where the image of this id lies. Raises BadImageError for what is no id."""
        if not name or "/" in name or name.startswith("."):
            raise BadImageError(f"{name!r} is no id of an image")
        return Place(self.root / name)

    def new(self, at: datetime) -> Place:
        """A place for one that is to be made."""
        return Place(self.root / f"{at.strftime('%Y%m%dt%H%M%S')}-{secrets.token_hex(3)}")

    def places(self) -> tuple[Place, ...]:
        """All directories, the newest first; also unfinished ones."""
        found = (Place(entry) for entry in self.root.iterdir() if entry.is_dir() and not entry.is_symlink())
        return tuple(sorted(found, key=lambda place: place.root.name, reverse=True))

    def put_aside(self, place: Place, why: str) -> None:
        """Never restore it again, whose restore failed: it is no image from now on, and the next sweep removes it."""
        with contextlib.suppress(OSError):
            (place.root / _BAD).write_text(why)
            place.manifest.rename(place.root / f"{MANIFEST}.{_BAD}")

    def remove(self, place: Place) -> None:
        """Remove it. Raises ImageInUseError, OSError."""
        with held(place, alone=True):
            # First of all it stops being one, so that a removal that is cut short leaves none that looks whole.
            place.manifest.unlink(missing_ok=True)
            shutil.rmtree(place.root)


@contextlib.contextmanager
def held(place: Place, *, alone: bool) -> Iterator[None]:
    """Hold it while an engine lives from it, or `alone` while it is made or removed; ends with this process at last.

    Raises ImageInUseError where that cannot be, OSError where it is not there.
    """
    fd = os.open(place.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ImageInUseError(f"{place.root.name} is in use") from error
        yield
    finally:
        os.close(fd)
