"""Bundles, keys and refs for the tests of stores."""

import hashlib
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from runtime.cache.stores.base import BundleRef

KEY = hashlib.sha256(b"a fingerprint").hexdigest()
OTHER_KEY = hashlib.sha256(b"another fingerprint").hexdigest()
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def bundle(folder: Path, seed: int = 1, size_bytes: int = 300_000) -> tuple[Path, str]:
    """A file that no compressor makes smaller, and its digest."""
    data = random.Random(seed).randbytes(size_bytes)
    path = folder / f"sample-{seed}.bundle"
    path.write_bytes(data)
    return path, hashlib.sha256(data).hexdigest()


def ref(seed: int, *, key: str = KEY, age_s: float = 0.0, size_bytes: int = 100) -> BundleRef:
    """A bundle published `age_s` before noon."""
    digest = hashlib.sha256(f"bundle {seed}".encode()).hexdigest()
    return BundleRef(key, digest, size_bytes, NOON - timedelta(seconds=age_s))


class Wall:
    """A clock that a test sets; each look at it is one second later."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def leftovers(folder: Path) -> list[str]:
    """Temporary files anywhere below `folder`."""
    return [str(path) for path in folder.rglob(".tmp~*")]
