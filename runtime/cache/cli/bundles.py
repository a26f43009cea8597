"""`keygen`, `pack`, `verify`, `restore`, `countersign`: what is done with one bundle file."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

from runtime.cache.bundle import Packed
from runtime.cache.bundle import pack as pack_bundle
from runtime.cache.cli.failures import Refused, visible
from runtime.cache.cli.interrupt import run
from runtime.cache.cli.options import store_url
from runtime.cache.cli.places import OwnShelf, opened, scratch
from runtime.cache.cli.reference import Here, fetched, here, parse
from runtime.cache.cli.terminal import Line, size
from runtime.cache.countersign import countersign as add_signature
from runtime.cache.faults import BundleFault
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.labels import model_of
from runtime.cache.layout import environment
from runtime.cache.manifest import Provenance
from runtime.cache.restore import Restored, Verified, inspect
from runtime.cache.restore import restore as restore_bundle
from runtime.cache.restore import verify as verify_bundle
from runtime.cache.signing import SigningKey
from runtime.cache.stores.base import StoreFault
from runtime.cache.threads import in_thread
from runtime.cache.trust import TrustPolicy


def keygen(file: Path, *, as_json: bool) -> None:
    """Make a key pair and say how to trust it."""
    public = SigningKey.generate(file).public
    public_file = file.with_name(file.name + ".pub")
    if as_json:
        typer.echo(json.dumps({"key": str(file), "public_key": str(public_file), "id": public.id}))
        return
    typer.echo(f"{file}: the private key; keep it where builds run, and nowhere else")
    typer.echo(f"{public_file}: the public key, id {public.id[:16]}; hosts take its bundles by a trust policy:\n")
    pem = "".join(f"    {line}\n" for line in public.pem.splitlines())
    typer.echo(f"keys:\n- name: {file.stem}\n  public_key: |\n{pem}", nl=False)


def pack(
    root: Path, out: Path, *, fingerprint: Fingerprint, signer: SigningKey, compile_s: float | None, as_json: bool
) -> None:
    """Make the bundle of a cache root."""
    if not root.is_dir():
        raise Refused(f"{root}: no such directory: name an engine's cache root (VLLM_CACHE_ROOT)")
    made = Provenance(
        made_by=version("pilotlight"),
        made_at=datetime.now(UTC).replace(microsecond=0),
        image=fingerprint.inputs.get("image"),
        vllm=installed("vllm"),
        torch=installed("torch"),
        compile_s=compile_s,
    )
    with Line() as line:
        packed = run(
            in_thread(
                lambda stop: pack_bundle(
                    root,
                    out,
                    fingerprint=fingerprint,
                    provenance=made,
                    signer=signer,
                    stop=stop,
                    progress=lambda done, total: line.bytes("packing", done, total),
                )
            )
        )
    _tell_packed(packed, as_json)


def countersign(named: str, out: Path, *, own: OwnShelf, signer: SigningKey, trust: TrustPolicy, as_json: bool) -> None:
    """Write a bundle with one signature more."""

    async def work() -> Packed:
        async with here(parse(named, own), line) as found:
            return await in_thread(lambda stop: add_signature(found.file, out, signer=signer, trust=trust, stop=stop))

    with Line() as line:
        packed = run(work())
    _tell_packed(packed, as_json)


def _tell_packed(packed: Packed, as_json: bool) -> None:
    if as_json:
        told = {
            "file": str(packed.path),
            "key": packed.manifest.key,
            "digest": packed.digest,
            "size_bytes": packed.size_bytes,
            "files": len(packed.manifest.files),
            "left_out": list(packed.left_out),
        }
        typer.echo(json.dumps(told))
        return
    files = len(packed.manifest.files)
    typer.echo(f"{packed.path}: {size(packed.size_bytes)}, {files} files, sha256 {packed.digest[:16]}")
    for path in packed.left_out:
        typer.echo(visible(f"  left out, for it names paths elsewhere: {path}"))


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of verifying one bundle. `fault` None: it is whole, and somebody trusted vouches for it."""

    place: str
    verified: Verified | None = None
    fault: BundleFault | StoreFault | None = None

    def as_json(self) -> dict[str, object]:
        """For programs."""
        if self.verified is None:
            cause = None if self.fault is None else self.fault.cause.value
            return {"bundle": self.place, "good": False, "cause": cause, "error": str(self.fault)}
        manifest = self.verified.manifest
        return {
            "bundle": self.place,
            "good": True,
            "key": manifest.key,
            "digest": self.verified.digest,
            "size_bytes": self.verified.size_bytes,
            "signer": self.verified.signer.name,
            "parts": list(manifest.parts),
            "provenance": manifest.provenance.model_dump(mode="json"),
        }

    def line(self) -> str:
        """For people."""
        if self.verified is None:
            return f"refused  {self.fault}"
        manifest, signer = self.verified.manifest, self.verified.signer.name
        facts = (model_of(manifest.inputs), size(self.verified.size_bytes), f"signed by {signer or 'nobody'}")
        return f"good     {self.place}: {', '.join(filter(None, facts))}"


def verify(names: list[str], *, own: OwnShelf, trust: TrustPolicy, as_json: bool) -> bool:
    """Prove each bundle that is named, and every one in each store that is; whether all are good."""

    async def work() -> list[Proof]:
        with Line() as line:
            return [proof for name in names for proof in [each async for each in _proofs(name, own, trust, line)]]

    proofs = run(work())
    if as_json:
        typer.echo(json.dumps([proof.as_json() for proof in proofs]))
    else:
        for proof in proofs:
            typer.echo(visible(proof.line()))
    return all(proof.fault is None for proof in proofs)


async def _proofs(name: str, own: OwnShelf, trust: TrustPolicy, line: Line) -> AsyncIterator[Proof]:
    if is_store(name):
        async with opened(store_url(name)) as store:
            refs = await store.list()
            if not refs:
                raise Refused(f"{name}: no bundle is there: `pilotlight cache build` or `push` puts some")
            for ref in refs:
                with scratch() as folder:
                    try:
                        found = await fetched(store, ref, folder, line)
                        yield await prove(found, trust, line)
                    except StoreFault as fault:
                        yield Proof(f"{store.place}#{ref.key[:12]}", fault=fault)
        return
    async with here(parse(name, own), line) as found:
        yield await prove(found, trust, line)


def is_store(name: str) -> bool:
    """Whether `name` is a store's URL or directory, with no bundle named in it."""
    return "#" not in name and not Path(name).is_file() and (":" in name or Path(name).is_dir())


async def prove(found: Here, trust: TrustPolicy, line: Line) -> Proof:
    """Read a whole bundle, and hold it against what its store said of it."""
    ref = found.ref

    def work(stop: threading.Event) -> Verified:
        return verify_bundle(
            found.file,
            trust=trust,
            expected_key=ref.key if ref is not None else None,
            expected_digest=ref.digest if ref is not None else None,
            stop=stop,
            progress=lambda done, total: line.bytes("verifying", done, total),
        )

    try:
        return Proof(found.place, verified=await in_thread(work))
    except BundleFault as fault:
        return Proof(found.place, fault=fault)


def restore(
    named: str, into: Path, *, own: OwnShelf, trust: TrustPolicy, key: str | None, replace: bool, as_json: bool
) -> None:
    """Unpack a bundle to `into`, and say with which variables an engine uses it."""

    async def work() -> Restored:
        async with here(parse(named, own), line) as found:
            head = await asyncio.to_thread(inspect, found.file, trust=trust)
            return await in_thread(
                lambda stop: restore_bundle(
                    found.file,
                    into,
                    trust=trust,
                    expected_key=key or (found.ref.key if found.ref is not None else head.manifest.key),
                    expected_digest=found.ref.digest if found.ref is not None else None,
                    replace=replace,
                    stop=stop,
                    progress=lambda done, total: line.bytes("restoring", done, total),
                )
            )

    with Line() as line:
        done = run(work())
    variables = environment(done.into)
    if as_json:
        bundle = done.bundle
        told = {"into": str(done.into), "key": bundle.manifest.key, "digest": bundle.digest, "env": variables}
        typer.echo(json.dumps(told))
        return
    typer.echo(f"{done.into}: {len(done.bundle.manifest.files)} files; an engine uses them with")
    for name, value in variables.items():
        typer.echo(f"  {name}={value}")


def installed(name: str) -> str | None:
    """The version of a package here; None where there is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
