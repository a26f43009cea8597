"""One request as it came on the wire: head checked, body kept as far as it has arrived."""

import re

from activator_ext.portal.refusals import Refusal, invalid

# RFC 9110 §7.6.1 and the two that proxies also keep to themselves.
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade".split()
)
# Set anew for the engine as well: framing and encoding, since the body may have been decoded; `Expect`, since it is
# answered here; `Accept-Encoding`, since heartbeats may stand before the answer's bytes.
_NOT_SENT_ON = HOP_BY_HOP | frozenset(b"host content-length content-encoding expect accept-encoding".split())
_SEEN = frozenset(b"accept content-type sec-fetch-site traceparent".split()) | _NOT_SENT_ON
_ONCE = frozenset(b"host content-length transfer-encoding content-encoding".split())
_FOR_THIS_HOP = frozenset((b"keep-alive", b"close", b"upgrade", b"te"))

# RFC 3986 §3.2.2: a registered name or an address, and a port; no user, no path.
_HOST = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=%-]*(:[0-9]*)?|\[[0-9A-Fa-f:.]+\](:[0-9]*)?").fullmatch

_CHUNKED = -1


class Request:
    """A request of one connection.

    `head`: the name and value of each field as they came. `lines`: those for the engine, in pieces to be joined.
    `fields`: those that the portal looks at, by name in small letters. `length` is the body's in bytes, -1 if it comes
    in chunks. `whole`: all of the body has arrived. `upgrade`: the protocol that the client would rather speak.
    `bad`: it cannot be read on, for this reason.
    """

    method = b""
    target = b""
    whole = False
    keep_alive = True
    http11 = True
    expects = False
    length = 0
    size = 0
    upgrade = b""
    bad: Refusal | None = None

    def __init__(self) -> None:
        self.head: list[tuple[bytes, bytes]] = []
        self.chunks: list[bytes] = []
        self.fields: dict[bytes, bytes] = {}
        self.lines: list[bytes] = []

    def close_head(self, method: bytes, version: str, *, keep_alive: bool) -> Refusal | None:
        """The head is there: what its fields say; a refusal if that is not HTTP/1.x as RFC 9112 has it."""
        self.method = method
        self.keep_alive = keep_alive
        self.http11 = version == "1.1"
        refusal = self._sort()
        if refusal is not None:
            return refusal
        if version not in ("1.0", "1.1"):
            return invalid(f"HTTP/{version} is not spoken here; use HTTP/1.1", "http_version", 505)
        if refusal := self._framing():
            return refusal
        if method in (b"GET", b"POST"):  # others are refused in any case, and have targets of their own
            if not self.target.startswith(b"/"):
                self._absolute()
            if not self.target.startswith(b"/") or b"#" in self.target or not self.target.isascii():
                return invalid("the request's target must be a path like /v1/chat/completions", "bad_request")
        host = self.fields.get(b"host", None if self.http11 else b"")
        if host is None or not _HOST(host):
            return invalid("an HTTP/1.1 request must carry a Host header, NAME or NAME:PORT", "bad_request")
        return None

    def body(self) -> bytes:
        """What of the body has arrived and is kept."""
        if len(self.chunks) != 1:
            self.chunks = [b"".join(self.chunks)]
        return self.chunks[0]

    def text(self, name: bytes) -> str:
        """A header's value, "" if it is not there. Only for fields that the portal looks at."""
        return self.fields.get(name, b"").decode("latin-1")

    def _sort(self) -> Refusal | None:
        """Into fields that the portal looks at and lines that the engine gets; a refusal if two contradict."""
        fields, lines = self.fields, self.lines
        for name, value in self.head:
            low = name.lower()
            if low in _SEEN:
                if low in fields:
                    if low in _ONCE:
                        return invalid(f"the header {low.decode()} stands twice", "bad_request")
                    fields[low] += b", " + value.strip(b" \t")  # a list may come in several fields
                else:
                    fields[low] = value.strip(b" \t")
                if low in _NOT_SENT_ON:
                    continue
            lines += (name, b": ", value, b"\r\n")
        if b"connection" in fields:
            named = tokens(fields[b"connection"])
            if named - _FOR_THIS_HOP:
                self.lines = lines_without(self.head, _NOT_SENT_ON | (named - _FOR_THIS_HOP))
            if b"close" in named:  # it counts more than keep-alive beside it (RFC 9112 §9.3), in HTTP/1.0 too
                self.keep_alive = False
            if b"upgrade" in named:
                self.upgrade = fields.get(b"upgrade", b"").lower()
        return None

    def _framing(self) -> Refusal | None:
        """How long the body is, and whether the client asks before it sends it."""
        fields = self.fields
        if b"content-length" in fields:
            self.length = int(fields[b"content-length"])
        elif b"transfer-encoding" in fields:
            if fields[b"transfer-encoding"].lower() != b"chunked" or not self.http11:
                return invalid("Transfer-Encoding can only be chunked, and only in HTTP/1.1", "bad_request")
            self.length = _CHUNKED
        if b"expect" in fields:
            if fields[b"expect"].lower() != b"100-continue":
                return invalid("Expect can only be 100-continue", "expectation_failed", 417)
            self.expects = self.http11 and self.length != 0
        return None

    def _absolute(self) -> None:
        """`http://authority/path` means that authority and `/path` (RFC 9112 §3.2.2)."""
        if self.target[:7].lower() == b"http://":
            authority, slash, path = self.target[7:].partition(b"/")
            self.target = slash + path or b"/"
            self.fields[b"host"] = authority


def tokens(value: bytes) -> set[bytes]:
    """The options of a `Connection` header, in small letters."""
    return {each.strip().lower() for each in value.split(b",")}


def lines_without(head: list[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> list[bytes]:
    """The fields of a head but those of these names, in pieces to be joined."""
    kept = [(name, value) for name, value in head if name.lower() not in dropped]
    return [part for name, value in kept for part in (name, b": ", value, b"\r\n")]
