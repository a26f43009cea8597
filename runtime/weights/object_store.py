"""Reads pieces of a bucket with the engine's own credentials: bounded in time, and clear about what is wrong.

The streamer inside the engine says "file access error" for a wrong key, a wrong region, a missing bucket and a store
that stalls alike; here each has its own sentence. `obstore` is imported when the first URL is looked at.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "az")
"""What `runai_streamer` reads (vllm/transformers_utils/runai_utils.py, SUPPORTED_SCHEMES)."""

TIMEOUT_S = 10.0
"""For one answer. A store that needs longer for a few bytes takes minutes for the weights."""

_AWS = ("access_key_id", "secret_access_key", "session_token", "region", "role_arn", "web_identity_token_file")
_AWS_FULL = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")


class StoreError(Exception):
    """The store cannot be read as asked. `str()` is a sentence that names the URL and the fix."""


@dataclass(frozen=True, slots=True)
class Object:
    """One object below the URL; `name` is relative to it. `etag` as the store gives it."""

    name: str
    size_bytes: int
    etag: str | None


class Bucket:
    """What lies below one URL.

    `env` is the engine's environment. `obstore` reads this process's own, too: where they differ, go by
    `runtime/weights/remote.py`, which looks from a process that has the engine's.
    """

    def __init__(self, url: str, env: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._endpoint = _endpoint(env)
        with self._clear("is looked at"):
            self._store = _store(self.url, env, timeout_s)

    async def objects(self) -> tuple[Object, ...]:
        """Everything below the URL, in the store's order. Raises StoreError."""
        found: list[Object] = []
        with self._clear("is listed"):
            async with asyncio.timeout(self._timeout_s):
                async for batch in self._store.list():
                    found += [Object(each["path"], each["size"], each.get("e_tag")) for each in batch]
        if not found:
            raise StoreError(f"{self.url} holds nothing: correct the URL (an object store knows no empty directory)")
        return tuple(found)

    async def read(self, name: str, begin: int = 0, length: int | None = None) -> bytes:
        """A range of an object, or all of it. Raises StoreError."""
        with self._clear("is read", f"/{name}"):
            async with asyncio.timeout(self._timeout_s):
                if length is not None:
                    return bytes(await self._store.get_range_async(name, start=begin, length=length))
                result = await self._store.get_async(name)
                return bytes(await result.bytes_async())

    @contextmanager
    def _clear(self, doing: str, below: str = "") -> Iterator[None]:
        """Turn what goes wrong in the block into StoreError."""
        try:
            yield
        except TimeoutError as error:
            raise StoreError(self._stalled(below)) from error
        except FileNotFoundError as error:
            raise StoreError(f"{self.url}{below} is not there (at {self._endpoint}): correct the URL") from error
        except StoreError:
            raise
        except Exception as error:  # obstore's own errors share no public base with what its builders raise
            raise StoreError(self._what(error, doing, below)) from error

    def _stalled(self, below: str) -> str:
        return (
            f"{self.url}{below}: the store at {self._endpoint} gave no answer within {self._timeout_s:g} s: is it "
            "reachable from here, and is AWS_ENDPOINT_URL right?"
        )

    def _what(self, error: Exception, doing: str, below: str) -> str:
        text = str(error)
        where = f"{self.url}{below} (at {self._endpoint})"
        kind = type(error).__name__
        if "169.254." in text or "instance metadata" in text:
            return f"{where}: no credentials were found: give the engine a key (AWS_ACCESS_KEY_ID …) or a role"
        if kind in {"PermissionDeniedError", "UnauthenticatedError"} or "InvalidAccessKeyId" in text or " 403 " in text:
            return f"{where} may not be read with these credentials: {_short(text)}"
        if "NoSuchBucket" in text:
            return f"{where}: there is no such bucket: correct the URL or the endpoint"
        if "timed out" in text or "operation timed out" in text:
            return self._stalled(below)
        if "error sending request" in text or "onnect" in text:
            return f"{where} cannot be reached: {_short(text)}"
        return f"{where} failed as it {doing}: {_short(text)}"


def _short(text: str) -> str:
    """The first line that says something; whole answers of a store are pages of XML, and may repeat what was sent."""
    return " ".join(text.split("\n\nDebug source:", 1)[0].split())[:300]


def _store(url: str, env: Mapping[str, str], timeout_s: float) -> "ObjectStore":
    from obstore.store import from_url  # noqa: PLC0415  (a local model never needs it)

    scheme = urlsplit(url).scheme
    if scheme not in SCHEMES:
        raise StoreError(f"{url}: vLLM streams {', '.join(f'{s}://' for s in SCHEMES)} only")
    limit = timedelta(seconds=timeout_s)
    options: Any = {"timeout": limit, "connect_timeout": limit, "allow_http": _endpoint(env).startswith("http://")}
    config: Any = _s3(env) if scheme == "s3" else None
    # One retry: more would hide a store that drops every second connection.
    retry: Any = {"max_retries": 1, "retry_timeout": limit}
    return from_url(url, config=config, client_options=options, retry_config=retry)


def _s3(env: Mapping[str, str]) -> dict[str, object]:
    config: dict[str, object] = {name: env[f"AWS_{name.upper()}"] for name in _AWS if env.get(f"AWS_{name.upper()}")}
    config.setdefault("region", env.get("AWS_DEFAULT_REGION", "us-east-1"))
    config |= {name.removeprefix("AWS_").lower(): env[name] for name in _AWS_FULL if env.get(name)}
    if endpoint := env.get("RUNAI_STREAMER_S3_ENDPOINT") or env.get("AWS_ENDPOINT_URL"):
        config["endpoint"] = endpoint
    if env.get("RUNAI_STREAMER_S3_UNSIGNED", "").lower() in {"1", "true"}:
        config["skip_signature"] = True
    return config


def _endpoint(env: Mapping[str, str]) -> str:
    return env.get("RUNAI_STREAMER_S3_ENDPOINT") or env.get("AWS_ENDPOINT_URL") or "the provider's own endpoint"
