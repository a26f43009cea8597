"""A lock's URL → the lock. By default a store keeps its own; a registry and an image cannot.

file:///caches, s3://…, gs://…, az://…    in that store, beside its bundles
lease://namespace                         a Kubernetes Lease there (`lease:` alone: this pod's namespace)
baked:, oci://…                           none: whoever compiles publishes
"""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from runtime.cache.locks import Lock
from runtime.cache.locks_directory import DirectoryLock
from runtime.cache.stores.base import BadStoreUrl
from runtime.cache.stores.patience import Patience

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def open_lock(url: str, key: str, *, patience: Patience | None = None) -> Lock | None:
    """The lock of `key` at `url`; nothing is asked of it yet. None: none is kept there. BadStoreUrl if it is none."""
    parts = urlsplit(url)
    match parts.scheme:
        case "" | "file" if parts.path.startswith("/") and parts.netloc in ("", "localhost"):
            return DirectoryLock(Path(unquote(parts.path) if parts.scheme else url), key, patience=patience)
        case "s3" | "gs" | "az":
            from runtime.cache.locks_objects import ObjectLock  # noqa: PLC0415  # 20 MB of library, only if needed

            return ObjectLock.at(url, key, patience=patience)
        case "lease":
            from runtime.cache.locks_lease import LeaseLock, in_this_cluster  # noqa: PLC0415  # needs `kubernetes`

            return LeaseLock(in_this_cluster(), parts.netloc or _namespace(url), key, patience=patience)
        case "baked" | "oci" | "oci+http":
            return None
        case _:
            raise BadStoreUrl(f"{url!r} can keep no lock: use file:///dir, s3://, gs://, az:// or lease://namespace")


def _namespace(url: str) -> str:
    try:
        return NAMESPACE_FILE.read_text().strip()
    except OSError as error:
        raise BadStoreUrl(f"{url!r}: not in a pod, so give the namespace: lease://namespace") from error
