"""What is known of an image: of which engine, made from what, on which machine, how long it may be used."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from runtime.contract import EngineSpec, Golden

SCHEMA_VERSION: Final = 1
MANIFEST: Final = "manifest.json"

# Paths and languages of whoever began it: they stay in the image as they were and change no answer.
_INCIDENTAL = frozenset({"PATH", "HOME", "USER", "LANG", "LANGUAGE", "TZ", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV"})
_SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEY|ACCESS_KEY|ACCOUNT_KEY|SAS|PRIVATE_KEY)"
    r"(?:$|[_-])",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(r"://[^/@\s]+:[^/@\s]+@")
"""A user and a password in a URL, as in that of a proxy."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MadeFrom(_Frozen):
    """What an engine is begun with: another of these is another engine."""

    service: str
    served_names: tuple[str, ...]
    platform: str
    args: tuple[str, ...]
    env: dict[str, str]


class SavedFile(_Frozen):
    """One file of an image. `stamp` changes when anybody writes to it, or moves it (`saved_files.stamp_of`)."""

    stamp: str
    size_bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class SnapshotManifest(_Frozen):
    """Written last, so an image without one is unfinished. `key`: the fingerprint's, None where none could be had.

    `leader`: the pid of the engine's first process; `highest_pid`: of all; `output`: the pipe that it writes to.
    `stock_s`: how long the start took that it was made from. `prompt` is the digest of the golden prompt, whose answer
    `golden_tokens` is.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    id: Annotated[str, Field(pattern=r"^[0-9a-z-]{1,64}$")]
    made_from: MadeFrom
    model_digest: str
    key: str | None
    host: dict[str, str]
    created_at: AwareDatetime
    expires_at: AwareDatetime
    leader: Annotated[int, Field(gt=1)]
    highest_pid: Annotated[int, Field(gt=1)]
    output: Annotated[str, Field(pattern=r"^pipe:\[\d+\]$")]
    prompt: str
    golden_tokens: tuple[int, ...]
    stock_s: float
    dump_s: float
    files: dict[str, SavedFile]

    @property
    def size_bytes(self) -> int:
        """All files together."""
        return sum(file.size_bytes for file in self.files.values())


def made_from(spec: EngineSpec, environ: Mapping[str, str]) -> MadeFrom:
    """`environ`: what engines of this spec are begun with (`argv.import_environment`)."""
    env = {k: v for k, v in environ.items() if k not in _INCIDENTAL and not k.startswith("LC_")}
    return MadeFrom(
        service=spec.service, served_names=spec.served_names, platform=spec.platform, args=spec.args, env=env
    )


def prompt_of(golden: Golden) -> str:
    """The digest of what is asked: an image's answer is compared with that to the same prompt only."""
    return hashlib.sha256(json.dumps([golden.prompt, golden.max_tokens]).encode()).hexdigest()


def secrets_of(spec: EngineSpec, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Names of variables and arguments that look like credentials: memory that holds them is in no image."""
    names = [k for k, v in environ.items() if _SECRET_NAME.search(k) or _SECRET_VALUE.search(v)]
    names += [arg.split("=", 1)[0] for arg in spec.args if _is_secret_argument(arg)]
    return tuple(sorted(set(names)))


def _is_secret_argument(arg: str) -> bool:
    name = arg.split("=", 1)[0]
    return (name.startswith("--") and bool(_SECRET_NAME.search(name))) or bool(_SECRET_VALUE.search(arg))
