"""Keys and trust: who may say what an engine runs."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from runtime.cache.archive import FILES, header
from runtime.cache.bundle import bundle_name, pack
from runtime.cache.countersign import countersign
from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.manifest import make_manifest, read_manifest_bytes
from runtime.cache.restore import inspect, verify
from runtime.cache.signing import PublicKey, Signature, SigningKey, decode_signatures, encode_signatures
from runtime.cache.trust import TrustedKey, TrustPolicy
from tests.unit.runtime.cache.hostile import bundle_of, file_entry, manifest_of, signatures_of, written
from tests.unit.runtime.cache.trees import FINGERPRINT, PROVENANCE, a_bundle, a_key, left_behind, make_tree

GOOD = "tilelang/x"


def _cause(call: object) -> BundleCause:
    with pytest.raises(BundleFault) as caught:
        call()  # type: ignore[operator]  # a lambda
    return caught.value.cause


# Keys


def test_a_made_key_is_private_and_openssl_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "k.pem"
    key = SigningKey.generate(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "k.pem.pub").stat().st_mode & 0o777 == 0o644
    assert SigningKey.load(file).public == key.public == PublicKey.load(tmp_path / "k.pem.pub")
    assert left_behind(tmp_path) == []
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed (Debian: openssl)")
    shown = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", str(tmp_path / "k.pem.pub"), "-noout", "-text"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ED25519" in shown.stdout


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "k.pem"
    key = SigningKey.generate(file)
    assert _cause(lambda: SigningKey.generate(file)) == BundleCause.BAD_KEY
    assert SigningKey.load(file).public == key.public


def test_a_hosts_key_is_made_once_by_whoever_comes_first(tmp_path: Path) -> None:
    file = tmp_path / "state" / "host.pem"
    with ThreadPoolExecutor(8) as pool:
        keys = [end.result().public for end in [pool.submit(SigningKey.load_or_make, file) for _ in range(8)]]
    assert len(set(keys)) == 1
    assert sorted(path.name for path in file.parent.iterdir()) == ["host.pem", "host.pem.pub"]
    assert file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_private_key_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "k.pem"
    SigningKey.generate(file)
    file.chmod(mode)
    with pytest.raises(BundleFault, match=f"chmod 600 {file}") as caught:
        SigningKey.load_or_make(file)
    assert caught.value.cause == BundleCause.BAD_KEY


@pytest.mark.parametrize(
    ("mode", "owner", "me", "taken"),
    [
        (0o440, 0, 10001, True),  # a Secret's file in a pod that is not root: by its group alone it can be read
        (0o640, 0, 10001, True),
        (0o440, 0, 0, False),
        (0o440, 10001, 10001, False),
        (0o460, 0, 10001, False),
        (0o444, 0, 10001, False),
        (0o400, 10002, 10001, False),
    ],
)
def test_root_may_let_a_group_read_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, me: int, taken: bool
) -> None:
    file = tmp_path / "k.pem"
    key = SigningKey.generate(file)
    as_it_is = os.fstat

    def as_told(fd: int) -> os.stat_result:
        found = as_it_is(fd)
        told = list(found)
        told[0], told[4] = found.st_mode & ~0o777 | mode, owner
        return os.stat_result(told)

    monkeypatch.setattr(os, "fstat", as_told)
    monkeypatch.setattr(os, "geteuid", lambda: me)
    if taken:
        assert SigningKey.load(file).public == key.public
    else:
        assert _cause(lambda: SigningKey.load(file)) == BundleCause.BAD_KEY


def test_what_is_no_ed25519_key_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "k.pem"
    rsa_key, ec_key = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
    private = (
        rsa_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        ec_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        ec_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")),
        a_key().public.pem.encode(),
        b"",
        b"\xff" * 100,
    )
    for data in private:
        file.write_bytes(data)
        file.chmod(0o600)
        assert _cause(lambda: SigningKey.load(file)) == BundleCause.BAD_KEY
    public = (
        rsa_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        private[0],
        b"",
        b"\xff" * 100,
    )
    for data in public:
        file.write_bytes(data)
        assert _cause(lambda: PublicKey.load(file)) == BundleCause.BAD_KEY
    assert _cause(lambda: SigningKey.load(tmp_path)) == BundleCause.BAD_KEY
    assert _cause(lambda: SigningKey.load(tmp_path / "none")) == BundleCause.BAD_KEY


def test_a_pipe_in_place_of_a_key_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "k.pem", 0o600)
    assert _cause(lambda: SigningKey.load(tmp_path / "k.pem")) == BundleCause.BAD_KEY


def test_a_key_does_not_show_its_secret(tmp_path: Path) -> None:
    key = SigningKey.generate(tmp_path / "k.pem")
    secret = (tmp_path / "k.pem").read_text().splitlines()[1]
    assert secret not in repr(key) + str(key) + str(vars(key).keys())
    assert repr(key) == f"SigningKey({key.public.id[:16]})"


def test_a_signature_is_for_a_bundle_and_nothing_else() -> None:
    """The same bytes signed for another purpose are no bundle's signature."""
    key, data = a_key(), b"manifest"
    good = Signature(key.public.id, key.sign(data))
    assert good.verifies(key.public, data)
    assert not good.verifies(key.public, data + b" ")
    assert not good.verifies(a_key(2).public, data)
    assert not Signature(a_key(2).public.id, good.value).verifies(a_key(2).public, data)
    assert not Signature(a_key(2).public.id, good.value).verifies(key.public, data)
    bare = key._SigningKey__key.sign(data)  # type: ignore[attr-defined]  # to sign as another program would
    assert not Signature(key.public.id, bare).verifies(key.public, data)


def test_signatures_have_one_form(tmp_path: Path) -> None:
    two = tuple(Signature(a_key(seed).public.id, a_key(seed).sign(b"x")) for seed in (1, 2))
    data = encode_signatures(two)
    assert set(decode_signatures(tmp_path, data)) == set(two)
    assert encode_signatures(two[::-1]) == data
    many = encode_signatures(tuple(Signature(f"{at}", b"") for at in range(17)))
    assert _cause(lambda: decode_signatures(tmp_path, many)) == BundleCause.BAD_SIGNATURE
    assert _cause(lambda: decode_signatures(tmp_path, data.replace(b":", b": "))) == BundleCause.BAD_SIGNATURE


# Trust


def _bundle(tmp: Path, *signers: SigningKey) -> Path:
    manifest = manifest_of([file_entry(GOOD, b"")])
    signatures = encode_signatures(tuple(Signature(key.public.id, key.sign(manifest)) for key in signers))
    return written(tmp, bundle_of(manifest, [(header(FILES + GOOD, 0), b"")], signatures))


def _policy(*seeds: int, **more: object) -> TrustPolicy:
    keys = tuple(TrustedKey(name=f"key {seed}", public_key=a_key(seed).public.pem) for seed in seeds)
    return TrustPolicy(keys=keys, **more)


def test_the_empty_policy_takes_nothing(tmp_path: Path) -> None:
    assert _cause(lambda: verify(_bundle(tmp_path, a_key()), trust=TrustPolicy())) == BundleCause.UNTRUSTED
    assert _cause(lambda: verify(_bundle(tmp_path), trust=TrustPolicy())) == BundleCause.UNSIGNED


def test_one_trusted_key_of_several_is_enough(tmp_path: Path) -> None:
    file = _bundle(tmp_path, a_key(1), a_key(2))
    assert verify(file, trust=_policy(2)).signer.name == "key 2"
    assert verify(file, trust=_policy(2, 1)).signer.name == "key 2"
    assert _cause(lambda: verify(file, trust=_policy(3))) == BundleCause.UNTRUSTED


def test_a_broken_signature_of_a_trusted_key_is_not_made_good_by_another(tmp_path: Path) -> None:
    """It says that somebody changed the manifest, whoever else signed it since."""
    manifest = manifest_of([file_entry(GOOD, b"")])
    signatures = encode_signatures(
        (Signature(a_key(1).public.id, bytes(64)), Signature(a_key(2).public.id, a_key(2).sign(manifest)))
    )
    file = written(tmp_path, bundle_of(manifest, [], signatures))
    assert _cause(lambda: inspect(file, trust=_policy(1, 2))) == BundleCause.BAD_SIGNATURE


def test_unsigned_is_taken_only_where_it_is_said(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "made")
    packed = pack(tree, tmp_path / "u.bundle", fingerprint=FINGERPRINT, provenance=PROVENANCE, signer=None)
    assert _cause(lambda: verify(packed.path, trust=_policy(1))) == BundleCause.UNSIGNED
    found = verify(packed.path, trust=_policy(1, accept_unsigned=True))
    assert (found.signer.name, found.signer.key_id) == (None, None)
    signed = a_bundle(tmp_path, a_key(2)).path
    assert _cause(lambda: verify(signed, trust=_policy(1, accept_unsigned=True))) == BundleCause.UNTRUSTED


@pytest.mark.parametrize(
    ("where", "taken"),
    [
        ({}, True),
        ({"model.digest": "sha256:4f*"}, True),
        ({"model.digest": "sha256:4f*", "version.vllm": "0.32.?"}, True),
        ({"model.digest": "sha256:4f"}, False),
        ({"model.digest": "SHA256:4F*"}, False),
        ({"model.digest": "sha256:4f*", "version.vllm": "0.33.*"}, False),
        ({"tenant": "*"}, False),
    ],
)
def test_a_key_speaks_for_its_fingerprints_only(tmp_path: Path, where: dict[str, str], *, taken: bool) -> None:
    policy = TrustPolicy(keys=(TrustedKey(name="team", public_key=a_key().public.pem, where=where),))
    file = a_bundle(tmp_path).path
    if taken:
        assert verify(file, trust=policy).signer.name == "team"
    else:
        with pytest.raises(BundleFault, match="'team' is not trusted for this fingerprint") as caught:
            verify(file, trust=policy)
        assert caught.value.cause == BundleCause.UNTRUSTED
        assert verify(file, trust=policy.trusting(a_key().public)).signer.name == "this host"


def test_a_signature_does_not_move_to_another_manifest(tmp_path: Path) -> None:
    other = make_manifest(FINGERPRINT, PROVENANCE.model_copy(update={"image": "sha256:other"}), ())
    file = written(tmp_path, bundle_of(manifest_of([file_entry(GOOD, b"")]), [], signatures_of(other.encode())))
    assert _cause(lambda: inspect(file, trust=_policy(1))) == BundleCause.BAD_SIGNATURE


def test_a_policy_file(tmp_path: Path) -> None:
    file = tmp_path / "trust.yaml"
    pem = a_key().public.pem.replace("\n", "\n      ")
    file.write_text(f"keys:\n- name: release\n  public_key: |\n      {pem}\n  where: {{model.digest: 'sha256:4f*'}}\n")
    policy = TrustPolicy.load(file)
    assert verify(a_bundle(tmp_path).path, trust=policy).signer.name == "release"
    file.write_text("")
    assert TrustPolicy.load(file) == TrustPolicy()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("keys: [", "line 1"),
        ("keys:\n- name: x\n  public_key: nonsense\n", "holds no public key"),
        ("keyz: []\n", "keyz"),
        ("accept_unsigned: perhaps\n", "accept_unsigned"),
        ("[]\n", "the policy"),
        ("keys:\n- {name: '', public_key: x}\n", "keys.0.name"),
        ("\x00", "not YAML"),
    ],
)
def test_a_policy_that_is_wrong_says_where(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "trust.yaml"
    file.write_text(text)
    with pytest.raises(BundleFault) as caught:
        TrustPolicy.load(file)
    assert caught.value.cause == BundleCause.BAD_POLICY
    assert says in str(caught.value)
    assert str(file) in str(caught.value)


def test_two_keys_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two keys are named key 1"):
        _policy(1, 1)
    assert _cause(lambda: TrustPolicy.load(tmp_path / "none")) == BundleCause.BAD_POLICY


def test_a_manifest_reads_what_it_writes(tmp_path: Path) -> None:
    manifest = inspect(a_bundle(tmp_path).path, trust=_policy(1)).manifest
    assert read_manifest_bytes(tmp_path, manifest.encode()) == manifest


# A second signature


def test_a_second_key_vouches_for_the_same_contents(tmp_path: Path) -> None:
    packed = a_bundle(tmp_path, a_key(1))
    both = countersign(packed.path, tmp_path, signer=a_key(2), trust=_policy(1))
    assert both.path == tmp_path / bundle_name(FINGERPRINT.key, both.digest)
    assert both.digest != packed.digest
    for seed in (1, 2):
        found = verify(both.path, trust=_policy(seed), expected_digest=both.digest)
        assert (found.signer.name, found.manifest) == (f"key {seed}", packed.manifest)
    again = countersign(both.path, tmp_path / "again", signer=a_key(2), trust=_policy(2))
    assert again.digest == both.digest
    assert left_behind(tmp_path) == []


def test_what_is_not_trusted_or_not_whole_is_not_countersigned(tmp_path: Path) -> None:
    """Else a release key would vouch for what nobody vouched for."""
    target = tmp_path / "out.bundle"
    good = a_bundle(tmp_path, a_key(1)).path
    cases = [(good, _policy(3), BundleCause.UNTRUSTED), (tmp_path / "none", _policy(1), BundleCause.MISSING)]
    manifest = manifest_of([file_entry(GOOD, b"good")])
    lies = bundle_of(manifest, [(header(FILES + GOOD, 4), b"evil")])
    cases.append((written(tmp_path, lies), _policy(1), BundleCause.CORRUPT))
    odd = tmp_path / "odd.bundle"
    odd.write_bytes(bundle_of(manifest, [(header(FILES + GOOD, 4), b"good")], end=bytes(512) + b"x" * 512))
    cases.append((odd, _policy(1), BundleCause.CORRUPT))
    for file, policy, cause in cases:
        assert (
            _cause(lambda file=file, policy=policy: countersign(file, target, signer=a_key(2), trust=policy)) == cause
        )
        assert not target.exists()
    sixteen = encode_signatures(
        tuple(Signature(a_key(seed).public.id, a_key(seed).sign(manifest)) for seed in range(1, 17))
    )
    full = written(tmp_path, bundle_of(manifest, [(header(FILES + GOOD, 4), b"good")], sixteen))
    assert verify(full, trust=_policy(16)).signer.name == "key 16"
    assert _cause(lambda: countersign(full, target, signer=a_key(17), trust=_policy(1))) == BundleCause.TOO_LARGE
    assert left_behind(tmp_path) == []
