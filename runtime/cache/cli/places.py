"""Where a host of this state directory keeps its bundles, key and quarantine, and whose bundles a command takes."""

import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from runtime.cache.cli.failures import Refused
from runtime.cache.quarantine import Quarantine
from runtime.cache.signing import PublicKey, SigningKey
from runtime.cache.stores.base import Store
from runtime.cache.stores.open import open_store
from runtime.cache.trust import TrustPolicy

SHELF = Path("engines") / ".shelf"
"""Below the state directory; `pilotlight up` begins its host with `--root STATE/engines`."""

OWN_KEY = "this host"


@dataclass(frozen=True, slots=True)
class OwnShelf:
    """The shelf of the host that belongs to the state directory `state`; nothing of it need exist."""

    state: Path

    @property
    def root(self) -> Path:
        """Where it lies."""
        return self.state.expanduser().absolute() / SHELF

    @property
    def store_url(self) -> str:
        """Its bundles."""
        return str(self.root / "store")

    def needed_url(self) -> str:
        """The same, for who looks for something in it. Raises Refused where no host has begun yet."""
        if not (self.root / "store").is_dir():
            fix = "name a file or STORE#KEY, or the state directory of `pilotlight up` with --state"
            raise Refused(f"{self.root}: no host has a shelf here yet: {fix}")
        return self.store_url

    @property
    def quarantine(self) -> Quarantine:
        """What is put aside."""
        return Quarantine(self.root / "quarantine.json")

    @property
    def public_key(self) -> PublicKey | None:
        """What its host signs with; None where no host has begun there. Raises BundleFault."""
        file = self.root / "signing-key.pem.pub"
        return PublicKey.load(file) if file.exists() else None

    def signer(self, key: Path | None) -> SigningKey:
        """The key in `key`, else the host's own, which is made if need be. Raises BundleFault."""
        return SigningKey.load(key) if key is not None else SigningKey.load_or_make(self.root / "signing-key.pem")

    def make_store(self) -> None:
        """Have its store, as a host makes it. Raises OSError."""
        (self.root / "store").mkdir(parents=True, exist_ok=True, mode=0o700)

    def trust(self, policy: Path | None, keys: list[Path]) -> TrustPolicy:
        """What `policy` says, `keys` and this host's own key. Raises BundleFault."""
        found = TrustPolicy.load(policy) if policy is not None else TrustPolicy()
        for file in keys:
            found = found.trusting(PublicKey.load(file), str(file))
        own = self.public_key
        return found.trusting(own, OWN_KEY) if own is not None else found


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """The store at `url`, closed afterwards. Raises BadStoreUrl."""
    store = open_store(url)
    try:
        yield store
    finally:
        await store.close()


@contextlib.contextmanager
def scratch(below: Path | None = None) -> Iterator[Path]:
    """A private directory that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="pilotlight-cache-", dir=below) as name:
        yield Path(name)
