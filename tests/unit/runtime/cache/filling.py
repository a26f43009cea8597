"""Pack and unpack on a disk that is full; run as `python -m …filling DIRECTORY [LIMIT_BYTES]`.

With a limit, no file may grow beyond it (RLIMIT_FSIZE, for this process); without one, DIRECTORY is on a small disk.
Prints what was refused, one cause a line, and fails where anything was left.
"""

import resource
import sys
from pathlib import Path

from runtime.cache.bundle import pack
from runtime.cache.faults import BundleFault
from runtime.cache.restore import restore
from tests.unit.runtime.cache.trees import FINGERPRINT, PROVENANCE, a_key, trust


def main() -> None:
    """Try both."""
    tree, bundle, small = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    if len(sys.argv) > 4:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[4]), resource.RLIM_INFINITY))
    before = sorted(small.rglob("*"))
    for work in (
        lambda: pack(tree, small / "b.bundle", fingerprint=FINGERPRINT, provenance=PROVENANCE, signer=a_key()),
        lambda: restore(bundle, small / "into", trust=trust(), expected_key=FINGERPRINT.key),
    ):
        try:
            work()
        except BundleFault as fault:
            print(fault.cause.value, fault)
        if left := sorted(set(small.rglob("*")) - set(before)):
            raise AssertionError(left)


if __name__ == "__main__":
    main()
