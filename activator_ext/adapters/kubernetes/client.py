"""One connection to one cluster's API server, by KUBECONFIG or as a pod; JSON in, JSON out, every call bounded.

On top of `kubernetes.aio`, which knows how to log in; its models are left out: 10,000 of
them are slow and large.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec
import yaml
from kubernetes.aio import client as aio  # type: ignore[import-untyped]  # the package ships no types
from kubernetes.aio import config as aio_config
from kubernetes.aio.config.incluster_config import (  # type: ignore[import-untyped]  # the package ships no types
    SERVICE_HOST_ENV_NAME,
)

from activator_ext.adapters.kubernetes.faults import NoCluster, Refused, Silent, Unreachable
from activator_ext.adapters.kubernetes.resource import Json

CONNECT_S = 5.0
ANSWER_S = 30.0
# Larger than any page of 250 objects that we ask for; etcd holds objects of 1.5 MiB at most.
MOST_BYTES = 512 * 1024 * 1024

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_NO_CLUSTER = "no cluster: {why}; set KUBECONFIG to a kubeconfig file, or run in a pod with a service account"


class Client:
    """Requests to one API server. `server`: its URL; `requests` counts them by method and path without names."""

    def __init__(self, api: Any, settings: Any, kubeconfig: str | None) -> None:
        self._api = api
        self._settings = settings
        self._kubeconfig = kubeconfig
        self._login = asyncio.Lock()
        self.server: str = settings.host
        self.requests: Counter[str] = Counter()

    @classmethod
    async def connect(cls, kubeconfig: str | os.PathLike[str] | None = None) -> Self:
        """By this kubeconfig, else KUBECONFIG's, else as a pod, else ~/.kube/config; NoCluster if there is none.

        Nothing is asked of the API server yet.
        """
        path = _kubeconfig_path(kubeconfig)
        settings = aio.Configuration()
        await _log_in(settings, path)
        return cls(aio.ApiClient(configuration=settings), settings, path)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()
        await asyncio.sleep(0.01)  # the transports under TLS end in a later round of the event loop

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Json:
        """The object or list at `path`; raises Refused or Unreachable."""
        return _decoded(f"GET {path}", await self.get_bytes(path, params))

    async def get_bytes(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """As the API server wrote it: for lists, of which only some fields are kept."""
        return await self._whole("GET", path, params)

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = JSON,
        params: Mapping[str, str] | None = None,
    ) -> Json:
        """POST, PUT, PATCH or DELETE `body`; what the API server made of it. Raises Refused or Unreachable."""
        return _decoded(f"{method} {path}", await self._whole(method, path, params, body, content_type))

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], *, silence_s: float
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """The body of a GET as it comes; Silent where nothing comes for `silence_s`, Refused if not a 200."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=silence_s)
        request = f"GET {path} (watch)"
        try:
            async with await self._open("GET", path, params, None, JSON, timeout) as answer:
                if answer.status == 401:
                    await self._renew_login()  # for the next try
                if answer.status != 200:
                    raise await _refused(request, answer)
                try:
                    yield answer.content
                finally:
                    _abort(answer)
        except aiohttp.SocketTimeoutError as error:
            raise Silent(f"{request} at {self.server}: nothing came for {silence_s:.0f} s") from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreachable(f"{request} at {self.server}: {_why(error)}") from error

    async def _whole(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: object = None,
        content_type: str = JSON,
    ) -> bytes:
        """One request; once more after a new login if the credential was not taken (tokens expire)."""
        try:
            return await self._once(method, path, params, body, content_type)
        except Refused as refused:
            if refused.status != 401:
                raise
        await self._renew_login()
        return await self._once(method, path, params, body, content_type)

    async def _renew_login(self) -> None:
        async with self._login:
            await _log_in(self._settings, self._kubeconfig)

    async def _once(
        self, method: str, path: str, params: Mapping[str, str] | None, body: object, content_type: str
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(total=ANSWER_S, sock_connect=CONNECT_S)
        request = f"{method} {path}"
        try:
            async with await self._open(method, path, params, body, content_type, timeout) as answer:
                if not 200 <= answer.status < 300:
                    raise await _refused(request, answer)
                return await _read(answer, MOST_BYTES)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise Unreachable(f"{request} at {self.server}: {_why(error)}") from error

    async def _open(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: object,
        content_type: str,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        self.requests[_counted(method, path, params)] += 1
        answer: aiohttp.ClientResponse = await self._api.call_api(
            path,
            method,
            query_params=list((params or {}).items()),
            header_params={"Accept": JSON, "Content-Type": content_type, "User-Agent": "pilotlight"},
            body=body,
            auth_settings=["BearerToken"],
            _preload_content=False,
            _request_timeout=timeout,
        )
        return answer


async def _log_in(settings: Any, kubeconfig: str | None) -> None:
    """Server and credential into `settings`: again where a token has expired (an exec plug-in, a projected token)."""
    try:
        if kubeconfig is None:
            aio_config.load_incluster_config(client_configuration=settings)
        else:
            await aio_config.load_kube_config(kubeconfig, client_configuration=settings, persist_config=False)
    except (
        aio_config.ConfigException,
        yaml.YAMLError,
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
    ) as error:
        # What is no kubeconfig makes the loader stumble in many ways; its own error is one of them.
        where = kubeconfig or "this pod's service account"
        raise NoCluster(_NO_CLUSTER.format(why=f"{where}: {error}")) from error


def _kubeconfig_path(given: str | os.PathLike[str] | None) -> str | None:
    """The kubeconfig to read; None: log in as a pod."""
    named = os.fspath(given) if given is not None else os.environ.get("KUBECONFIG")
    if named:
        files = [path for path in named.split(os.pathsep) if path]
        if not any(Path(path).is_file() for path in files):
            raise NoCluster(_NO_CLUSTER.format(why=f"{named} is no file"))
        return named
    if os.environ.get(SERVICE_HOST_ENV_NAME):
        return None
    home = Path.home() / ".kube" / "config"
    if home.is_file():
        return str(home)
    raise NoCluster(_NO_CLUSTER.format(why=f"KUBECONFIG is not set, this is no pod, and there is no {home}"))


def _counted(method: str, path: str, params: Mapping[str, str] | None) -> str:
    """A request's kind: the method (or WATCH) and the collection, whatever the namespace and name."""
    parts = path.strip("/").split("/")
    rest = parts[3:] if parts[0] == "apis" else parts[2:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    verb = "WATCH" if method == "GET" and params and "watch" in params else method
    return f"{verb} {rest[0] if rest else path}"


async def _refused(request: str, answer: aiohttp.ClientResponse) -> Refused:
    try:
        body = await _read(answer, 1024 * 1024)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        body = b""
    return Refused.of(request, answer.status, body, answer.headers.get("Retry-After"))


async def _read(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """The body; ValueError if it has more than `most` bytes."""
    pieces = []
    size = 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > most:
            raise ValueError(f"an answer of more than {most} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _abort(answer: aiohttp.ClientResponse) -> None:
    """End a stream that is not over at once: TLS would wait half a minute for the other side's farewell."""
    connection = answer.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _why(error: BaseException) -> str:
    """Some errors say nothing but their name."""
    return str(error) or type(error).__name__


def _decoded(request: str, body: bytes) -> Json:
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreachable(f"{request}: what came is no JSON ({error}): {body[:80]!r}") from error
    if not isinstance(value, dict):
        raise Unreachable(f"{request}: what came is no object: {body[:80]!r}")
    return value
