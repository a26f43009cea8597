"""Whose bundles are taken: public keys by name, each for the fingerprints that it may speak for.

A trust policy is a YAML file:

    keys:
    - name: release
      public_key: |
        -----BEGIN PUBLIC KEY-----
        …
      where: {image: "sha256:4f*"}     # patterns over a fingerprint's inputs; all must match; none: any fingerprint
    accept_unsigned: false

In a store that others can write to, only bundles signed by such a key are taken. What a host made itself it signed
with its own key (`signing.SigningKey.load_or_make`), and takes by `TrustPolicy.own`.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.signing import PublicKey, Signature

_POLICY_FILE_BYTES = 2**20


class TrustedKey(BaseModel):
    """A key whose bundles are taken.

    `where`: patterns (`*`, `?`, `[…]`, case counts) over the inputs of a bundle's fingerprint; a bundle that lacks
    such an input is not taken.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=128)]
    public_key: str
    where: Mapping[str, str] = Field(default_factory=dict)

    @property
    def key(self) -> PublicKey:
        """The parsed key."""
        return PublicKey.from_pem(Path(self.name), self.public_key)

    @model_validator(mode="after")
    def _parses(self) -> Self:
        try:
            _ = self.key
        except BundleFault as error:
            raise ValueError(f"key {error}") from error
        return self

    def speaks_for(self, inputs: Mapping[str, str]) -> bool:
        """Whether its bundles are taken for a fingerprint of these inputs."""
        return all(name in inputs and fnmatchcase(inputs[name], pattern) for name, pattern in self.where.items())


class Signer(BaseModel):
    """Who vouches for a bundle: a trusted key. `name` None: nobody does, and the policy takes that."""

    model_config = ConfigDict(frozen=True)

    name: str | None = None
    key_id: str | None = None


class TrustPolicy(BaseModel):
    """What a host takes. The empty policy takes nothing.

    `accept_unsigned` takes bundles without any signature, which means: whoever can write to the store can run code
    on the host. A signature by an unknown key stays refused with it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: tuple[TrustedKey, ...] = ()
    accept_unsigned: bool = False

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        names = [key.name for key in self.keys]
        if doubled := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two keys are named {min(doubled)}")
        return self

    @classmethod
    def own(cls, key: PublicKey, name: str = "this host") -> "TrustPolicy":
        """Take what this host made itself."""
        return cls(keys=(TrustedKey(name=name, public_key=key.pem),))

    @classmethod
    def load(cls, file: Path) -> "TrustPolicy":
        """Read a policy file. Raises BundleFault (BAD_POLICY)."""
        fix = "correct the trust policy (docs/concepts/bundle.md)"
        try:
            with file.open("rb") as opened:
                value = yaml.safe_load(opened.read(_POLICY_FILE_BYTES))
            return cls.model_validate(value if value is not None else {})
        except OSError as error:
            raise BundleFault(BundleCause.BAD_POLICY, file, f"cannot be read ({error.strerror})", fix) from error
        except yaml.YAMLError as error:
            raise BundleFault(BundleCause.BAD_POLICY, file, f"is not YAML ({_place(error)})", fix) from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the policy"
            raise BundleFault(BundleCause.BAD_POLICY, file, f"{where}: {first['msg']}", fix) from error

    def trusting(self, key: PublicKey, name: str = "this host") -> "TrustPolicy":
        """This policy, which takes one key more, for all fingerprints."""
        return self.model_copy(update={"keys": (*self.keys, TrustedKey(name=name, public_key=key.pem))})

    def authenticate(self, file: Path, data: bytes, signatures: tuple[Signature, ...]) -> tuple[TrustedKey, ...]:
        """The trusted keys that signed `data`, a manifest's bytes that nobody has interpreted yet.

        None where it is unsigned and that is accepted. Raises BundleFault: UNSIGNED, UNTRUSTED (no known key),
        BAD_SIGNATURE (a known key did not sign these bytes).
        """
        if not signatures and not self.accept_unsigned:
            raise BundleFault(
                BundleCause.UNSIGNED, file, "it is not signed", "sign it with a trusted key, or build it on this host"
            )
        named = {signature.key_id: signature for signature in signatures}
        known = tuple(trusted for trusted in self.keys if trusted.key.id in named)
        for trusted in known:
            if not named[trusted.key.id].verifies(trusted.key, data):
                raise BundleFault(
                    BundleCause.BAD_SIGNATURE,
                    file,
                    f"the signature of key {trusted.name!r} is not of this manifest",
                    "do not use this bundle; somebody changed it",
                )
        if signatures and not known:
            ids = ", ".join(signature.key_id[:16] for signature in signatures)
            what = f"it is signed by {ids}, which the trust policy does not name"
            raise BundleFault(BundleCause.UNTRUSTED, file, what, "add the key to the trust policy if you trust it")
        return known


def authorize(file: Path, signed_by: tuple[TrustedKey, ...], inputs: Mapping[str, str]) -> Signer:
    """Which of the keys that signed may speak for a fingerprint of these inputs. Raises BundleFault (UNTRUSTED)."""
    for trusted in signed_by:
        if trusted.speaks_for(inputs):
            return Signer(name=trusted.name, key_id=trusted.key.id)
    if not signed_by:
        return Signer()
    what = f"key {signed_by[0].name!r} is not trusted for this fingerprint"
    raise BundleFault(BundleCause.UNTRUSTED, file, what, "widen its `where` in the trust policy, or use its key")


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}" if mark else "broken"
