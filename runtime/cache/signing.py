"""ed25519 keys in PEM files, and signatures over a manifest's bytes.

A compile cache is code that an engine runs, so who signs a bundle decides what runs on each host that trusts the key.
"""

import contextlib
import hashlib
import json
import os
import stat
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.staging import draft_file, sweep

CONTEXT = b"pilotlight bundle manifest\n"
"""Stands before what is signed, so that a signature made for something else is none for a bundle."""

SIGNATURES_BYTES = 16 * 2**10
MAX_SIGNATURES = 16

_KEY_FILE_BYTES = 64 * 2**10
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that signatures are checked with. `id` is the sha256 of its 32 bytes, in hex."""

    raw: bytes

    @property
    def id(self) -> str:
        """What a signature names the key by."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def pem(self) -> str:
        """The key as PEM (SubjectPublicKeyInfo), as openssl writes it."""
        key = Ed25519PublicKey.from_public_bytes(self.raw)
        return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    @classmethod
    def from_pem(cls, file: Path, pem: str) -> "PublicKey":
        """The key in `pem`, read from `file`. Raises BundleFault (BAD_KEY)."""
        try:
            key = load_pem_public_key(pem.encode())
        except (ValueError, UnsupportedAlgorithm) as error:
            raise _bad_key(file, "holds no public key in PEM form") from error
        if not isinstance(key, Ed25519PublicKey):
            raise _bad_key(file, "holds a public key that is not ed25519")
        return cls(key.public_bytes(Encoding.Raw, PublicFormat.Raw))

    @classmethod
    def load(cls, file: Path) -> "PublicKey":
        """Read a public key file. Raises BundleFault (BAD_KEY)."""
        return cls.from_pem(file, _read_key(file, private=False).decode(errors="replace"))


class SigningKey:
    """A private key. It never shows its secret: not in `repr`, and not as an attribute."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self.__key = key
        self.public = PublicKey(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def __repr__(self) -> str:
        return f"SigningKey({self.public.id[:16]})"

    def sign(self, manifest: bytes) -> bytes:
        """The 64 bytes of the signature over these manifest bytes; the same each time."""
        return self.__key.sign(CONTEXT + manifest)

    @classmethod
    def load(cls, file: Path) -> "SigningKey":
        """Read a private key file for its owner's eyes, or root's for our group's. Raises BundleFault (BAD_KEY)."""
        data = _read_key(file, private=True)
        try:
            key = load_pem_private_key(data, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise _bad_key(file, "holds no private key in PEM form without a password") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise _bad_key(file, "holds a private key that is not ed25519")
        return cls(key)

    @classmethod
    def generate(cls, file: Path) -> "SigningKey":
        """Make a key and write it to `file` (0600), its public half to `file` with `.pub` added.

        Never overwrites. Raises BundleFault (BAD_KEY).
        """
        key = Ed25519PrivateKey.generate()
        made = cls(key)
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            _write_new(file, secret, 0o600)
        except FileExistsError as error:
            raise _bad_key(file, "exists already; nothing was written") from error
        except OSError as error:
            raise _bad_key(file, f"cannot be written ({error.strerror})") from error
        file.with_name(file.name + ".pub").unlink(missing_ok=True)
        made._write_public(file)
        return made

    @classmethod
    def load_or_make(cls, file: Path) -> "SigningKey":
        """A host's own key: made at first use, by whichever process comes first. Raises BundleFault (BAD_KEY)."""
        if not file.exists():
            try:
                file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                sweep(file.parent)  # the drafts of a killed process hold keys
                return cls.generate(file)
            except BundleFault:
                if not file.exists():
                    raise
            except OSError as error:
                raise _bad_key(file, f"cannot be written ({error.strerror})") from error
        made = cls.load(file)
        made._write_public(file)
        return made

    def _write_public(self, file: Path) -> None:
        """The public half beside the private one, where it is missing; nobody but its reader needs it."""
        with contextlib.suppress(OSError):
            _write_new(file.with_name(file.name + ".pub"), self.public.pem.encode(), 0o644)


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature, and the id of the key that is said to have made it."""

    key_id: str
    value: bytes

    @classmethod
    def by(cls, signer: SigningKey, manifest: bytes) -> "Signature":
        """The signature of `signer` over these manifest bytes."""
        return cls(signer.public.id, signer.sign(manifest))

    def verifies(self, key: PublicKey, manifest: bytes) -> bool:
        """Whether `key` made this over these manifest bytes."""
        if self.key_id != key.id:
            return False
        try:
            Ed25519PublicKey.from_public_bytes(key.raw).verify(self.value, CONTEXT + manifest)
        except InvalidSignature:
            return False
        return True


def encode_signatures(signatures: tuple[Signature, ...]) -> bytes:
    """The canonical bytes of the bundle's second member; an unsigned bundle has an empty list."""
    ordered = sorted(signatures, key=lambda signature: signature.key_id)
    rows = [{"key": one.key_id, "signature": b64encode(one.value).decode()} for one in ordered]
    return json.dumps({"algorithm": "ed25519", "signatures": rows}, sort_keys=True, separators=(",", ":")).encode()


def decode_signatures(file: Path, data: bytes) -> tuple[Signature, ...]:
    """The signatures in `data`, found in `file`. Raises BundleFault (BAD_SIGNATURE)."""
    try:
        rows = json.loads(data)["signatures"]
        found = tuple(Signature(str(row["key"]), b64decode(row["signature"], validate=True)) for row in rows)
    except (ValueError, RecursionError, KeyError, TypeError, Base64Error) as error:
        raise _bad_signature(file, "its signatures cannot be read") from error
    if len(found) > MAX_SIGNATURES or encode_signatures(found) != data:
        raise _bad_signature(file, "its signatures are not in their canonical form")
    return found


def _bad_signature(file: Path, what: str) -> BundleFault:
    return BundleFault(BundleCause.BAD_SIGNATURE, file, what, "do not use this bundle; fetch or build it again")


def _bad_key(file: Path, what: str) -> BundleFault:
    return BundleFault(
        BundleCause.BAD_KEY, file, what, "name an ed25519 key in PEM form, or make one (`pilotlight cache keygen`)"
    )


def _read_key(file: Path, *, private: bool) -> bytes:
    try:
        with open(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _bad_key(file, "is no regular file")
            if private:
                _refuse_open_key(file, status)
            return opened.read(_KEY_FILE_BYTES)
    except OSError as error:
        raise _bad_key(file, f"cannot be read ({error.strerror})") from error


def _refuse_open_key(file: Path, status: os.stat_result) -> None:
    # The kubelet gives a Secret to a pod that is not root as a file of root's, which the pod's group may read.
    lent = status.st_uid == 0 and os.geteuid() != 0
    if status.st_mode & (_OTHERS & ~stat.S_IRGRP if lent else _OTHERS):
        mode = stat.S_IMODE(status.st_mode)
        raise BundleFault(
            BundleCause.BAD_KEY, file, f"a private key that others may use (mode {mode:04o})", f"chmod 600 {file}"
        )
    if status.st_uid not in {os.geteuid(), 0}:
        raise BundleFault(
            BundleCause.BAD_KEY, file, f"a private key of another user (uid {status.st_uid})", "use a key of your own"
        )


def _write_new(file: Path, data: bytes, mode: int) -> None:
    """Write a whole file under a name that is free; a reader sees all of it or none."""
    with draft_file(file) as draft:
        os.write(draft.fd, data)
        os.fchmod(draft.fd, mode)
        os.fsync(draft.fd)
        os.link(draft.path, file)
