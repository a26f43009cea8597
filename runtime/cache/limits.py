"""How large a bundle may be, packed and unpacked."""

from dataclasses import dataclass
from pathlib import Path

from runtime.cache.archive import FILE_BYTES, WINDOW_BYTES, Frame
from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.manifest import Manifest

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for making and for taking a bundle; the largest cache seen (H100, 70B, all shapes) is below 2 GiB.

    `ratio`: unpacked over packed size, which no cache of more than `ratio_from_bytes` reaches (text: 30, code: 4).
    `window_bytes`: memory that zstd may take to unpack.
    """

    total_bytes: int = 16 * 1024 * MIB
    file_bytes: int = FILE_BYTES
    files: int = 50_000
    manifest_bytes: int = 32 * MIB
    ratio: int = 500
    ratio_from_bytes: int = 64 * MIB
    window_bytes: int = WINDOW_BYTES

    def check_frame(self, file: Path, frame: Frame, file_bytes: int) -> None:
        """Refuse by the archive's own headers, before anything is unpacked. Raises BundleFault."""
        # Each file costs a header, a pax record where its name is long, and padding.
        most = self.total_bytes + self.manifest_bytes + self.files * 4096
        if frame.content_bytes > most:
            raise too_large(file, f"it would unpack to {frame.content_bytes} bytes, allowed are {self.total_bytes}")
        if frame.window_bytes > self.window_bytes:
            raise too_large(
                file, f"unpacking it takes {frame.window_bytes} bytes of memory, allowed are {self.window_bytes}"
            )
        if frame.content_bytes > self.ratio_from_bytes and frame.content_bytes > self.ratio * file_bytes:
            raise too_large(
                file, f"it would unpack {file_bytes} bytes to {frame.content_bytes}, over {self.ratio} times as much"
            )

    def check_manifest(self, file: Path, manifest: Manifest) -> None:
        """Refuse by what the manifest lists. Raises BundleFault."""
        if len(manifest.files) > self.files:
            raise too_large(file, f"it has {len(manifest.files)} files, allowed are {self.files}")
        if manifest.total_bytes > self.total_bytes:
            raise too_large(file, f"its files have {manifest.total_bytes} bytes, allowed are {self.total_bytes}")
        largest = max(manifest.files, key=lambda entry: entry.size)
        if largest.size > self.file_bytes:
            raise too_large(file, f"{largest.path} has {largest.size} bytes, allowed are {self.file_bytes}")


def too_large(file: Path, what: str) -> BundleFault:
    """The fault of a bundle beyond its limits."""
    return BundleFault(BundleCause.TOO_LARGE, file, what, "raise the limit if you trust its maker, else build it again")
