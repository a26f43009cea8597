"""What a bundle says of itself: the first thing in it, and the only thing that is signed.

It is canonical JSON: a manifest that is not, byte for byte, what `encode` writes is refused, so no two programs can
read two things in it (doubled keys, other numbers).
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.fingerprint import Fingerprint, FingerprintError
from runtime.cache.layout import part_of
from runtime.cache.paths import check_path, check_tree

SCHEMA: Final = 1
"""Grows with each change that an older reader would misread."""

HEX_DIGEST = r"^[0-9a-f]{64}$"

_DAMAGED = "do not use this bundle; fetch or build it again"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class FileDigest(_Part):
    """One file: its path in the cache root, size, sha256 and mode.

    `mtime_ns` only where the cache compares times (`layout.Part.mtimes`). `relocated`: the file names its neighbours
    by absolute path; what is archived and digested has the root as a token, and the restored file has the real one.
    """

    path: str
    size: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern=HEX_DIGEST)]
    mode: Literal[0o644, 0o755]
    mtime_ns: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    relocated: bool = False


class Provenance(_Part):
    """Where a bundle comes from; names no host and no user.

    `made_by`: Pilotlight's version. `image`: digest of the image it was made in. `golden`: digest of the golden
    answer that was given with these artifacts before they were published. `compile_s`: seconds of compiling that it
    saves. None: not known.
    """

    made_by: str
    made_at: AwareDatetime = Field(strict=False)
    image: str | None = None
    vllm: str | None = None
    torch: str | None = None
    golden: str | None = None
    compile_s: Annotated[float, Field(ge=0)] | None = None


class Manifest(_Part):
    """All that is in a bundle, for which fingerprint, and where it comes from."""

    schema_version: Literal[1] = SCHEMA
    key: Annotated[str, Field(pattern=HEX_DIGEST)]
    inputs: Mapping[str, str]
    provenance: Provenance
    total_bytes: Annotated[int, Field(ge=0)]
    files: tuple[FileDigest, ...] = Field(strict=False)

    def encode(self) -> bytes:
        """The canonical bytes, which a signature covers."""
        return _canonical(self.model_dump(mode="json"))

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the caches that it has files of."""
        found = {part.name for file in self.files if (part := part_of(file.path))}
        return tuple(sorted(found))


def make_manifest(fingerprint: Fingerprint, provenance: Provenance, files: tuple[FileDigest, ...]) -> Manifest:
    """The manifest of these files, which are brought into order."""
    return Manifest(
        key=fingerprint.key,
        inputs=dict(fingerprint.inputs),
        provenance=provenance,
        total_bytes=sum(file.size for file in files),
        files=tuple(sorted(files, key=lambda entry: entry.path.encode())),
    )


def read_manifest_bytes(file: Path, data: bytes) -> Manifest:
    """The manifest in `data`, found in `file`; safe to unpack by. Raises BundleFault."""
    manifest = _parse(file, data)
    _check_key(file, manifest)
    for entry in manifest.files:
        check_path(file, entry.path)
    names = [entry.path.encode() for entry in manifest.files]
    if any(one >= other for one, other in pairwise(names)):
        raise BundleFault(BundleCause.UNSAFE_PATH, file, "its files are doubled or not in order", _DAMAGED)
    check_tree(file, (entry.path for entry in manifest.files))
    if manifest.total_bytes != sum(entry.size for entry in manifest.files):
        raise BundleFault(BundleCause.CORRUPT, file, "its total is not the sum of its files", _DAMAGED)
    if not manifest.files:
        raise BundleFault(BundleCause.CORRUPT, file, "it holds no files", _DAMAGED)
    return manifest


def _check_key(file: Path, manifest: Manifest) -> None:
    """A signer who is trusted for some inputs must not be able to name another fingerprint's key beside them."""
    try:
        key = Fingerprint(manifest.inputs).key
    except FingerprintError as error:
        raise BundleFault(BundleCause.CORRUPT, file, f"its manifest is not valid ({error})", _DAMAGED) from error
    if key != manifest.key:
        what = "its key is not that of its inputs; it is damaged, or of a version that makes other keys"
        raise BundleFault(BundleCause.FOREIGN, file, what, "build it again with this version")


def _parse(file: Path, data: bytes) -> Manifest:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BundleFault(BundleCause.CORRUPT, file, f"its manifest is not JSON ({error})", _DAMAGED) from error
    version = value.get("schema_version") if isinstance(value, dict) else None
    if isinstance(version, int) and version > SCHEMA:
        fix = "update Pilotlight here, or build the bundle with this version"
        raise BundleFault(BundleCause.UNKNOWN_FORMAT, file, f"its format is {version}, known is {SCHEMA}", fix)
    try:
        manifest = Manifest.model_validate(value)
        canonical = manifest.encode()
    except (ValidationError, ValueError) as error:
        where = _first(error) if isinstance(error, ValidationError) else str(error)
        raise BundleFault(BundleCause.CORRUPT, file, f"its manifest is not valid ({where})", _DAMAGED) from error
    if canonical != data:
        raise BundleFault(BundleCause.CORRUPT, file, "its manifest is not in its canonical form", _DAMAGED)
    return manifest


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
