"""One attempt at an engine: the request as it is sent on, the answer until its first byte."""

import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from activator_ext.portal.intake import Intake
from runtime.contract import Endpoint

# RFC 9110 §7.6.1, and the two that proxies also keep to themselves.
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

# Set anew for the engine: the server has decompressed the body, answered `Expect`, and the answer's bytes must be
# plain, since a heartbeat may stand before them.
_REPLACED = frozenset({"host", "content-length", "content-encoding", "expect", "accept-encoding"})

# Written in one go; longer bodies in pieces, so that other requests have their turn between them.
_PIECE_BYTES = 256 * 2**10


class EngineLost(Exception):
    """No byte of an answer came: connection refused, reset, or timed out."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An engine's answer with the first piece of its body (empty: there is none). Must be closed."""

    response: aiohttp.ClientResponse
    first: bytes


def open_session(connect_s: float) -> aiohttp.ClientSession:
    """The client for all engines: no cookies, no proxy settings, nothing decompressed, no limit in number.

    Idle connections are let go after 2 s, well before the 5 s after which vLLM closes them: a request must not
    meet a connection that is just being closed.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
    )


async def ask(session: aiohttp.ClientSession, request: web.BaseRequest, intake: Intake, endpoint: Endpoint) -> Answer:
    """Send the request and wait for the first piece of the answer's body; raises EngineLost."""
    query = request.rel_url.raw_query_string
    url = URL(endpoint.url.rstrip("/") + intake.path + (f"?{query}" if query else ""), encoded=True)
    headers = request_headers(request.headers)
    response: aiohttp.ClientResponse | None = None
    try:
        response = await session.request(
            request.method, url, headers=headers, data=_body(request, intake, headers), allow_redirects=False
        )
        return Answer(response, await response.content.readany())
    except BaseException as error:
        if response is not None:
            response.close()
        if isinstance(error, aiohttp.ClientError | OSError):
            raise EngineLost from error
        raise


def request_headers(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """What the engine gets to see of the client's headers.

    A client without a trace gets a fresh one: vLLM joins a request that has none to the trace of its cold start.
    """
    sent = _end_to_end(headers, _REPLACED)
    sent["Accept-Encoding"] = "identity"
    sent.setdefault("traceparent", f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01")
    return sent


def response_headers(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """What the client gets to see of the engine's headers."""
    return _end_to_end(headers, frozenset())


def _end_to_end(headers: Mapping[str, str], left_out: frozenset[str]) -> CIMultiDict[str]:
    named = {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    dropped = _HOP_BY_HOP | left_out | named
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in dropped)


def _body(request: web.BaseRequest, intake: Intake, headers: CIMultiDict[str]) -> bytes | AsyncIterator[bytes] | None:
    if intake.whole and len(intake.kept) <= _PIECE_BYTES:
        return intake.kept or None
    if intake.whole:
        headers["Content-Length"] = str(len(intake.kept))
        return _pieces(intake.kept)
    if request.content_length is not None and "Content-Encoding" not in request.headers:
        headers["Content-Length"] = str(request.content_length)
    return _rest(request, intake.kept)


async def _pieces(kept: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(kept), _PIECE_BYTES):
        yield kept[start : start + _PIECE_BYTES]


async def _rest(request: web.BaseRequest, kept: bytes) -> AsyncIterator[bytes]:
    if kept:
        yield kept
    async for chunk in request.content.iter_any():
        yield chunk
