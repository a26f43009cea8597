"""A start that finds a bundle which is damaged, forged, foreign, hostile or poisoned; the fake engine serves."""

import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.cache.archive import FILES
from runtime.cache.bundle import pack
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.quarantine import Quarantine
from runtime.cache.signing import SigningKey
from runtime.cache.stores.base import BundleRef
from runtime.cache.stores.directory import DirectoryStore
from runtime.cache.trust import TrustedKey, TrustPolicy
from runtime.contract import FailureCause, Mark, StartRecord, Verdict
from tests.fakes.model import make_model
from tests.unit.runtime.cache.hostile import bundle_of, file_entry, header_of, manifest_of, signatures_of
from tests.unit.runtime.cache.starting import Machine
from tests.unit.runtime.cache.trees import PROVENANCE, a_key

GOOD = "torch_compile_cache/torch_aot_compile/" + "20d1" * 16 + "/rank_0_0/model"


class Far:
    """A store that two hosts share, the host that made the first bundle there, and its key."""

    def __init__(self, tmp: Path) -> None:
        self.root = tmp / "far"
        self.url = f"file://{self.root}"
        self.store = DirectoryStore(self.root)
        self.maker = Machine(tmp / "maker", publish_to=self.url)
        self.key = self.maker.fingerprint.key

    @property
    def trust(self) -> TrustPolicy:
        keys = (("maker", self.maker.signer.public.pem), ("other", a_key().public.pem))
        return TrustPolicy(keys=tuple(TrustedKey(name=name, public_key=pem) for name, pem in keys))

    async def made(self) -> BundleRef:
        """The bundle of the first host's cold start."""
        record = await self.maker.start()
        ref = await self.store.newest(self.key)
        assert ref is not None
        assert (record.cache.verdict, record.cache.published) == (Verdict.ABSENT, ref.digest)
        assert await self.maker.store.newest(self.key) == ref, "one bundle for both stores"
        return ref

    def file(self, ref: BundleRef) -> Path:
        return self.root / "bundles" / ref.key / ref.name

    async def give(self, data: bytes) -> BundleRef:
        """Somebody publishes these bytes, under their own digest, as the newest bundle of the key."""
        path = self.root.parent / "given.bundle"
        path.write_bytes(data)
        return await self.store.publish(self.key, path, hashlib.sha256(data).hexdigest())

    async def newest(self) -> str | None:
        ref = await self.store.newest(self.key)
        return ref.digest if ref else None


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


@pytest.fixture
def host(tmp_path: Path, far: Far) -> Machine:
    """Takes bundles from `far`, trusts its maker, publishes there."""
    return Machine(tmp_path / "host", publish_to=far.url, policy=far.trust)


def went_without(record: StartRecord) -> str:
    """It compiled for itself and serves. What it noted of the bundle."""
    assert (record.outcome, record.cache.verdict, record.cache.origin) == ("ready", Verdict.ABSENT, None)
    assert record.cache.evidence == "0 loaded, 1 compiled, 1 new in the directory"
    return record.cache.note


async def used_by_all(far: Far, host: Machine, tmp_path: Path) -> None:
    """What the host left is sound: for its own replicas, and for a host that comes new."""
    again, other = await host.start(), await host.start("1")
    assert (again.cache.origin, again.cache.verdict) == ("own", Verdict.USED)
    assert (other.cache.origin, other.cache.verdict) == (host.store.place, Verdict.USED)
    key = TrustedKey(name="host", public_key=host.signer.public.pem)
    new = Machine(tmp_path / "new", stores=[far.url], policy=TrustPolicy(keys=(*far.trust.keys, key)))
    came = await new.start()
    assert (came.cache.origin, came.cache.verdict) == (far.store.place, Verdict.USED)
    assert came.golden_tokens == again.golden_tokens


async def test_a_bundle_of_another_host_is_used_and_kept(far: Far, host: Machine) -> None:
    ref = await far.made()
    first = await host.start()
    assert (first.cache.verdict, first.cache.digest) == (Verdict.USED, ref.digest)
    assert (first.cache.origin, first.cache.size_bytes) == (far.store.place, ref.size_bytes)
    kept = await host.store.newest(far.key)
    assert kept == ref, "the next replica finds it near, the same file"
    assert await far.newest() == ref.digest
    second = await host.start("1")
    assert (second.cache.origin, second.cache.verdict) == (host.store.place, Verdict.USED)


def cut(data: bytes) -> bytes:
    return data[:-100]


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [cut, flipped, lambda _: b"", lambda _: b"not a bundle at all"])
async def test_a_bundle_damaged_before_it_was_published(
    far: Far, host: Machine, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    ref = await far.made()
    bad = await far.give(damage(far.file(ref).read_bytes()))
    assert f"bundle {bad.digest[:12]} of {far.store.place} refused" in went_without(await host.start())
    assert await far.newest() not in (None, bad.digest, ref.digest), "the host gave a sound one for it"
    await used_by_all(far, host, tmp_path)


async def test_bits_that_rot_in_the_store(far: Far, host: Machine, tmp_path: Path) -> None:
    ref = await far.made()
    path = far.file(ref)
    path.chmod(0o600)
    path.write_bytes(flipped(path.read_bytes()))
    assert "has the sha256" in went_without(await host.start())
    assert await far.newest() not in (None, ref.digest)
    await used_by_all(far, host, tmp_path)


async def test_a_bundle_cut_short_in_the_store(far: Far, host: Machine, tmp_path: Path) -> None:
    ref = await far.made()
    path = far.file(ref)
    path.chmod(0o600)
    path.write_bytes(cut(path.read_bytes()))
    assert went_without(await host.start()) == "", "a file that is not as long as its record says counts as not there"
    await used_by_all(far, host, tmp_path)


async def test_a_bundle_of_another_fingerprint(far: Far, host: Machine, tmp_path: Path) -> None:
    other = Machine(tmp_path / "other", args=("--max-num-seqs=3",), publish_to=far.url)
    assert (await other.start()).outcome == "ready"
    theirs = await far.store.newest(other.fingerprint.key)
    assert theirs is not None
    given = await far.give(far.file(theirs).read_bytes())
    policy = TrustPolicy(keys=(TrustedKey(name="other", public_key=other.signer.public.pem),))
    host = Machine(tmp_path / "host", publish_to=far.url, policy=policy)
    assert f"bundle {given.digest[:12]}" in went_without(await host.start())
    assert await far.newest() not in (None, given.digest)
    # Of the other fingerprint it is a good bundle, on this host as well.
    host.args = other.args
    taken = await host.start()
    assert (taken.cache.digest, taken.cache.verdict) == (given.digest, Verdict.USED)


async def test_a_foreign_key_is_refused_and_left_to_those_who_trust_it(far: Far, tmp_path: Path) -> None:
    ref = await far.made()
    host = Machine(tmp_path / "host", publish_to=far.url)
    note = went_without(await host.start())
    assert "which the trust policy does not name" in note
    assert await far.newest() == ref.digest, "others trust it: nothing is published over it"
    assert (await host.start("1")).cache.origin == host.store.place, "it has its own"
    assert Quarantine(host.root / ".shelf/quarantine.json").rows(PROVENANCE.made_at) == ()
    # The key is added to the policy: the same bundle is taken.
    trusting = Machine(tmp_path / "trusting", publish_to=far.url, policy=far.trust)
    assert (await trusting.start()).cache.digest == ref.digest


async def test_a_key_that_is_trusted_no_longer(far: Far, host: Machine, tmp_path: Path) -> None:
    """What the host kept of it is refused from then on, and replaced by what the host compiles itself."""
    ref = await far.made()
    assert (await host.start()).cache.digest == ref.digest
    assert await host.store.newest(far.key) == ref
    wary = Machine(tmp_path / "host", stores=[far.url])
    assert f"bundle {ref.digest[:12]} of {host.store.place} refused" in went_without(await wary.start("1"))
    again = await wary.start("2")
    assert (again.cache.origin, again.cache.verdict) == (wary.store.place, Verdict.USED)
    assert again.cache.digest != ref.digest


async def packed(
    far: Far, source: Path, signer: SigningKey | None, fingerprint: Fingerprint | None = None
) -> BundleRef:
    """A bundle of the directory `source`, said to be for the start's fingerprint, in the store."""
    target = far.root.parent / "packed.bundle"
    bundle = pack(
        source, target, fingerprint=fingerprint or far.maker.fingerprint, provenance=PROVENANCE, signer=signer
    )
    return await far.store.publish(far.key, bundle.path, bundle.digest)


async def test_an_unsigned_bundle(far: Far, host: Machine) -> None:
    await far.made()
    root = far.maker.artifact().parents[4]
    ref = await packed(far, root, None)
    assert "it is not signed" in went_without(await host.start())
    assert await far.newest() == ref.digest
    assert (await host.start("1")).cache.origin == host.store.place


async def test_a_signature_of_something_else(far: Far, host: Machine, tmp_path: Path) -> None:
    await far.made()
    inputs = {"key": far.key, "inputs": dict(far.maker.fingerprint.inputs)}
    manifest = manifest_of([file_entry(GOOD, b"x")], **inputs)
    wrong = signatures_of(manifest_of([file_entry(GOOD, b"y")], **inputs))
    bad = await far.give(bundle_of(manifest, [(header_of(GOOD, 1), b"x")], wrong))
    assert "somebody changed it" in went_without(await host.start())
    assert await far.newest() != bad.digest
    await used_by_all(far, host, tmp_path)


def climbing() -> tuple[dict[str, Any], bytes, bytes]:
    path = "torch_compile_cache/../../../../climbed"
    return file_entry(path, b"x"), header_of(path, 1), b"x"


def absolute() -> tuple[dict[str, Any], bytes, bytes]:
    return file_entry("/climbed", b"x"), header_of("/climbed", 1), b"x"


def linked(kind: bytes) -> tuple[dict[str, Any], bytes, bytes]:
    member = tarfile.TarInfo(FILES + GOOD)
    member.type, member.linkname = kind, "/etc/passwd"
    return file_entry(GOOD, b""), member.tobuf(tarfile.GNU_FORMAT), b""


@pytest.mark.parametrize(
    "member", [climbing(), absolute(), linked(tarfile.SYMTYPE), linked(tarfile.LNKTYPE)], ids=["..", "/", "sym", "hard"]
)
async def test_a_trusted_key_that_signs_a_hostile_bundle(
    far: Far, host: Machine, tmp_path: Path, member: tuple[dict[str, Any], bytes, bytes]
) -> None:
    """The key was stolen, say: still no file leaves the directory, and no link is made."""
    await far.made()
    entry, head, content = member
    manifest = manifest_of([entry], key=far.key, inputs=dict(far.maker.fingerprint.inputs))
    bad = await far.give(bundle_of(manifest, [(head, content)]))
    before = {path for path in tmp_path.rglob("*") if not path.is_relative_to(host.root)}
    assert f"bundle {bad.digest[:12]} of {far.store.place} refused" in went_without(await host.start())
    outside = {path for path in tmp_path.rglob("*") if not path.is_relative_to(host.root)} - before
    assert all(path.is_relative_to(far.root) for path in outside), outside
    assert not any(path.is_symlink() for path in host.caches().rglob("*"))
    assert await far.newest() != bad.digest
    await used_by_all(far, host, tmp_path)


async def test_a_refused_bundle_sends_on_to_the_next_store(far: Far, tmp_path: Path) -> None:
    ref = await far.made()
    spoilt = Far(tmp_path / "spoilt")
    spoilt.key = far.key
    await spoilt.give(flipped(far.file(ref).read_bytes()))
    host = Machine(tmp_path / "host", stores=[spoilt.url, far.url], policy=far.trust)
    record = await host.start()
    assert (record.cache.origin, record.cache.verdict) == (far.store.place, Verdict.USED)
    assert f"of {spoilt.store.place} refused" in record.cache.note


POISONS = {
    b"POISON": (FailureCause.KILLED, "SIGSEGV soon after it was restored"),
    b"RAISES": (FailureCause.EXITED, "exited during compile, where the engine uses it"),
    b"WRONG": (FailureCause.GOLDEN_WRONG, "it did not give the golden answer with it"),
}


@pytest.mark.parametrize("poison", POISONS)
async def test_a_poisoned_artifact_fails_one_start(far: Far, host: Machine, tmp_path: Path, poison: bytes) -> None:
    """Validly signed for this very fingerprint, and bad: the engine dies of it, or answers wrongly with it."""
    good = await far.maker.start()
    host.learned = dict(far.maker.learned)
    artifact = far.maker.artifact()
    artifact.write_bytes(poison)
    bad = await packed(far, artifact.parents[4], a_key())
    cause, why = POISONS[poison]

    failed = await host.start()
    assert failed.outcome == "failed", "it never serves"
    assert failed.failure is not None
    assert (failed.failure.cause, failed.failure.permanent) == (cause, False)
    assert (failed.cache.digest, failed.cache.note) == (bad.digest, f"put aside: {why}")
    assert await host.store.newest(far.key) is None, "it is not kept: nothing was proven with it"

    record = await host.start()
    assert (record.outcome, record.cache.verdict) == ("ready", Verdict.QUARANTINED)
    assert "left alone: it is quarantined here" in record.cache.note
    assert record.golden_tokens == good.golden_tokens
    assert (await far.newest()) == record.cache.published
    await used_by_all(far, host, tmp_path)


async def test_an_artifact_that_does_not_load_is_compiled_again(far: Far, host: Machine, tmp_path: Path) -> None:
    await far.made()
    artifact = far.maker.artifact()
    artifact.write_bytes(b"half of what was sav")
    bad = await packed(far, artifact.parents[4], a_key())
    record = await host.start()
    assert (record.outcome, record.cache.verdict, record.cache.digest) == ("ready", Verdict.RECOMPILED, bad.digest)
    assert "a load failed: not what was saved" in record.cache.evidence
    near = await host.start("1")
    assert (near.cache.origin, near.cache.verdict) == (host.store.place, Verdict.USED), (
        "the host keeps what it compiled"
    )


async def test_a_valid_bundle_at_the_wrong_path_comes_out_recompiled(far: Far, host: Machine) -> None:
    """Its artifacts are of other arguments: the engine looks elsewhere, and says no word of what was restored."""
    other = Machine(far.root.parent / "other", args=("--max-num-seqs=3",))
    await other.start()
    ref = await packed(far, other.artifact().parents[4], a_key())
    first, second = await host.start(), await host.start("1")
    assert (first.cache.verdict, first.cache.digest) == (Verdict.RECOMPILED, ref.digest)
    assert first.cache.compile_s is not None
    assert "it looked elsewhere than where torch_compile_cache/torch_aot_compile/" in first.cache.evidence
    assert (second.cache.origin, second.cache.verdict) == (host.store.place, Verdict.USED)


async def test_recompiled_twice_in_a_row_is_a_finding(far: Far, host: Machine) -> None:
    other = Machine(far.root.parent / "other", args=("--max-num-seqs=3",))
    await other.start()
    await packed(far, other.artifact().parents[4], a_key())
    host.shelf._targets.clear()  # nobody can keep what was compiled: the next start finds the same useless one
    records = [await host.start("0"), await host.start("1"), await host.start("2")]
    assert [record.cache.verdict for record in records] == [Verdict.RECOMPILED] * 3
    assert ["engines recompiled" in record.cache.note for record in records] == [False, True, True]


async def test_other_weights_share_the_code_and_answer_for_themselves(far: Far, host: Machine, tmp_path: Path) -> None:
    await far.made()
    host.model = make_model(tmp_path / "other", seed=9, compiles=True)
    record = await host.start()
    assert record.cache.verdict is Verdict.USED
    assert record.golden_key not in far.maker.learned
    assert record.golden_tokens not in far.maker.learned.values()


async def test_another_model_at_the_right_path_is_another_key(far: Far, host: Machine) -> None:
    await far.made()
    (far.maker.model / "config.json").write_text(json.dumps({"architectures": ["OtherForCausalLM"]}))
    record = await host.start()
    assert record.cache.key != far.key
    assert went_without(record) == ""


async def test_a_missing_shard_fails_the_start_and_nothing_else(far: Far, host: Machine) -> None:
    ref = await far.made()
    await host.start()
    shard = far.maker.model / "model.safetensors"
    index = far.maker.model / "model.safetensors.index.json"
    whole = shard.read_bytes()
    index.write_text(json.dumps({"weight_map": {"w": "model.safetensors", "v": "model-2.safetensors"}}))
    failed = await host.start()
    assert failed.failure is not None
    assert failed.failure.cause is FailureCause.MODEL_INCOMPLETE
    assert "model-2.safetensors" in failed.failure.message
    assert Mark.T4 not in failed.marks, "no engine began"
    index.unlink()
    shard.write_bytes(whole)
    record = await host.start()
    assert (record.cache.origin, record.cache.verdict) == ("own", Verdict.USED), "the cache is blamed for nothing"
    assert await far.newest() == ref.digest
