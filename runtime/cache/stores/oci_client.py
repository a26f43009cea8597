"""A registry by its plain HTTP API (OCI distribution 1.1): requests with login, retries and bounds; faults as ours."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlencode, urljoin, urlsplit

import httpx

from runtime.cache.stores.base import StoreCause, StoreFault
from runtime.cache.stores.oci_auth import Challenge, Login, challenge_of, login_for
from runtime.cache.stores.patience import FIX, Patience

TRIES = 4
BACKOFF_S = 0.2
MOST_WAIT_S = 5.0
"""A Retry-After beyond this is not waited for: a start has better to do."""
MOST_JSON_BYTES = 4 * 1024 * 1024
"""The largest manifest that registries must take, by the specification."""
UNANSWERED = (httpx.HTTPError, httpx.InvalidURL)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class RegistryClient:
    """One repository of one registry. `origin`: scheme, host and port. `sleep`: waits between tries."""

    def __init__(
        self,
        origin: str,
        repository: str,
        patience: Patience,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.place = f"{origin}/{repository}"
        self._origin = origin
        self._repository = repository
        self._sleep = sleep
        self._authorization: str | None = None
        window_s = patience.window_s
        timeout = httpx.Timeout(connect=min(5.0, window_s), read=window_s, write=window_s, pool=window_s)
        headers = {"User-Agent": "pilotlight", "Accept-Encoding": "identity"}
        self._http = httpx.AsyncClient(timeout=timeout, headers=headers, follow_redirects=True, max_redirects=5)

    def url(self, path: str) -> str:
        """`path` below the repository, as a URL."""
        return f"{self._origin}/v2/{self._repository}/{path}"

    def absolute(self, location: str) -> str:
        """A Location of this registry. UNREACHABLE if it leads to a plain-text place from one with TLS."""
        url = urljoin(self._origin + "/", location)
        if urlsplit(url).scheme != "https" and urlsplit(self._origin).scheme == "https":
            said = f"it sends uploads to {urlsplit(url).scheme}://{urlsplit(url).netloc}"
            raise StoreFault(StoreCause.UNREACHABLE, self.place, said, "set the registry's own URL to https")
        return url

    async def ask(
        self,
        method: str,
        url: str,
        *,
        accept: tuple[int, ...],
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        retry: bool = True,
    ) -> httpx.Response:
        """The answer, its body read, its status one of `accept`; else StoreFault. `retry`: it may be asked twice."""
        for attempt in range(TRIES if retry else 1):
            last = attempt == TRIES - 1 or not retry
            try:
                async with self._stream(method, url, headers, content) as arriving:
                    answer = await _whole(arriving, self.place)
            except UNANSWERED as error:
                if last or isinstance(error, httpx.TimeoutException):
                    raise _transport_fault(error, self.place) from error
                await self._sleep(BACKOFF_S * 2**attempt)
                continue
            if answer.status_code in accept:
                return answer
            wait_s = _wait_s(answer, BACKOFF_S * 2**attempt)
            if last or wait_s is None:
                raise self.fault(answer)
            await self._sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    async def read(self, url: str, offset: int) -> AsyncGenerator[bytes, None]:
        """A blob's bytes from `offset` on."""
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        try:
            async with self._stream("GET", url, headers, None) as answer:
                if answer.status_code not in (200, 206):
                    raise self.fault(await _whole(answer, self.place))
                skip = offset if answer.status_code == 200 else 0  # it knows no ranges: from the start then
                async for chunk in answer.aiter_raw(512 * 1024):
                    if skip < len(chunk):
                        yield chunk[skip:]
                    skip = max(0, skip - len(chunk))
        except UNANSWERED as error:
            raise _transport_fault(error, self.place) from error

    def fault(self, answer: httpx.Response) -> StoreFault:
        """What an answer that was not wanted means."""
        status = answer.status_code
        said = f"{answer.request.method} answered {status}{_words(answer)}"
        if status in (401, 403):
            fix = "log in as one who may pull (and, to publish, push): REGISTRY_AUTH_FILE or docker's config.json"
            return StoreFault(StoreCause.DENIED, self.place, said, fix)
        if status == 404:
            return StoreFault(StoreCause.ABSENT, self.place, said, "it was deleted; ask for the newest again")
        if status == 405:
            return StoreFault(StoreCause.DENIED, self.place, said, "let the registry delete (storage.delete.enabled)")
        if status in (413, 507) or "quota" in said.lower():
            return StoreFault(StoreCause.FULL, self.place, said, "raise its quota, or `pilotlight cache gc` it")
        if "DIGEST_INVALID" in said:
            return StoreFault(StoreCause.CORRUPT, self.place, said, "it was damaged on the way; publish it again")
        return StoreFault(StoreCause.UNREACHABLE, self.place, said, "look at the registry's log")

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    @asynccontextmanager
    async def _stream(
        self, method: str, url: str, headers: Mapping[str, str] | None, content: bytes | None
    ) -> AsyncIterator[httpx.Response]:
        for may_log_in in (True, False):
            asked = dict(headers or {})
            if self._authorization is not None:
                asked["Authorization"] = self._authorization
            async with self._http.stream(method, url, headers=asked, content=content) as answer:
                if answer.status_code != 401 or not may_log_in or not await self._log_in(answer):
                    yield answer
                    return

    async def _log_in(self, answer: httpx.Response) -> bool:
        """Take what the challenge asks for. False: there is nothing new to try."""
        challenge = challenge_of(answer.headers.get("www-authenticate", ""))
        if challenge is None or answer.url.netloc != httpx.URL(self._origin).netloc:
            return False
        login = login_for(urlsplit(self._origin).netloc, self._repository)
        if challenge.scheme == "basic":
            fresh = login.header if login is not None else None
        else:
            fresh = await self._token(challenge, login)
        changed = fresh is not None and fresh != self._authorization
        self._authorization = fresh
        return changed

    async def _token(self, challenge: Challenge, login: Login | None) -> str | None:
        realm = urlsplit(challenge.fields.get("realm", ""))
        safe = realm.scheme == "https" or (realm.scheme == "http" and realm.hostname in LOOPBACK)
        if not safe:
            said = f"it wants a login at {realm.scheme}://{realm.netloc}, which is not private"
            raise StoreFault(StoreCause.DENIED, self.place, said, "give the token service an https URL")
        scope = challenge.fields.get("scope") or f"repository:{self._repository}:pull,push"
        query = {"service": challenge.fields.get("service", ""), "scope": scope}
        url = f"{realm.geturl()}{'&' if realm.query else '?'}{urlencode(query)}"
        answer = await self._http.get(url, headers={"Authorization": login.header} if login else {})
        if answer.status_code != 200:
            raise self.fault(answer)
        try:
            given = answer.json()
            return f"Bearer {given.get('token') or given['access_token']}"
        except (ValueError, KeyError, AttributeError) as error:
            said = f"the token service {realm.netloc} gave no token"
            raise StoreFault(StoreCause.DENIED, self.place, said, "look at its log") from error


async def _whole(answer: httpx.Response, place: str) -> httpx.Response:
    """The answer with its body, up to a bound (which `aread` does not know); a manifest and an error are small."""
    body = bytearray()
    async for chunk in answer.aiter_raw():
        body += chunk
        if len(body) > MOST_JSON_BYTES:
            said = f"more than {MOST_JSON_BYTES} bytes where a manifest was asked for"
            raise StoreFault(StoreCause.CORRUPT, place, said, "this is no registry, or no bundle of ours")
    return httpx.Response(answer.status_code, headers=answer.headers, content=bytes(body), request=answer.request)


def _wait_s(answer: httpx.Response, backoff_s: float) -> float | None:
    """How long to wait before asking again. None: asking again is of no use."""
    if answer.status_code not in (429, 500, 502, 503, 504):
        return None
    try:
        wait_s = float(answer.headers.get("retry-after", backoff_s))
    except ValueError:  # an HTTP date
        wait_s = backoff_s
    return wait_s if 0 <= wait_s <= MOST_WAIT_S else None


def _words(answer: httpx.Response) -> str:
    """The registry's own words for it, if it has any."""
    try:
        errors = json.loads(answer.content)["errors"]
        return ": " + "; ".join(f"{each['code']} {each.get('message', '')}".strip() for each in errors)[:300]
    except (ValueError, KeyError, TypeError):
        return ""


def _transport_fault(error: Exception, place: str) -> StoreFault:
    said = f"{type(error).__name__} {error}".strip()
    if isinstance(error, httpx.TimeoutException):
        return StoreFault(StoreCause.STALLED, place, said, FIX)
    return StoreFault(StoreCause.UNREACHABLE, place, said, "look at the registry, its certificate and the network")
