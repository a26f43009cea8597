"""Add a signature to a bundle: what one key vouched for, another vouches for too.

So a bundle that a build made and a host proved can be let into a fleet by a key that neither of them has. The
contents and the manifest stay, byte for byte; the file is another one, with another digest.
"""

import threading
from collections.abc import Callable
from pathlib import Path

from runtime.cache.bundle import Packed, bundle_name
from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.limits import Limits
from runtime.cache.reading import Wanted, open_bundle
from runtime.cache.signing import MAX_SIGNATURES, Signature, SigningKey
from runtime.cache.staging import draft_file, publish_file, sweep
from runtime.cache.trust import TrustPolicy
from runtime.cache.writing import not_written, write_bundle


def countersign(
    file: Path,
    target: Path,
    *,
    signer: SigningKey,
    trust: TrustPolicy,
    limits: Limits | None = None,
    stop: threading.Event | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Packed:
    """Write `file`, which `trust` must take as it is, to `target` with the signature of `signer` added.

    In a directory it gets its own name. Everything is checked as in `restore`, while it is copied. Raises BundleFault,
    and InterruptedError once `stop` is set; then nothing is written.
    """
    bounds, wanted = limits or Limits(), Wanted(trust)
    sweep(target if target.is_dir() else target.parent)
    with open_bundle(file, bounds, stop, progress) as reader:
        manifest = reader.head(wanted).manifest
        others = tuple(one for one in reader.signatures if one.key_id != signer.public.id)
        if len(others) >= MAX_SIGNATURES:
            what = f"it has {len(others)} signatures already"
            raise BundleFault(BundleCause.TOO_LARGE, file, what, "build it again, with the keys that count")
        signatures = (*others, Signature.by(signer, manifest.encode()))
        try:
            with draft_file(target / "new" if target.is_dir() else target) as draft:
                digest, size = write_bundle(
                    draft, manifest, signatures, contents=reader.files(), limits=bounds, named=file
                )
                reader.finish(wanted)
                path = target / bundle_name(manifest.key, digest) if target.is_dir() else target
                publish_file(draft, path)
        except OSError as error:
            raise not_written(target, error) from error
    return Packed(path, digest, size, manifest)
