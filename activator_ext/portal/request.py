"""One request as it came on the wire: head checked, body kept as far as it has arrived."""

from activator_ext.portal.refusals import Refusal, invalid

# RFC 9110 §7.6.1 and the two that proxies also keep to themselves, and what is set anew for the engine: framing and
# encoding, since the body may have been decoded; `Expect`, since it is answered here; `Accept-Encoding`, since
# heartbeats may stand before the answer's bytes.
_NOT_SENT_ON = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade host content-length content-encoding expect accept-encoding".split()
)
_ONCE = frozenset(b"host content-length transfer-encoding content-encoding".split())
_SEEN = frozenset(b"accept content-type traceparent".split()) | _NOT_SENT_ON

_CHUNKED = -1
_NO_BODY = 0


class Request:
    """A request of one connection. `lines` are the header fields for the engine, each `Name: value` without line end.

    `length` is the body's in bytes, -1 if it comes in chunks. `whole`: all of the body has arrived. `bad`: it cannot be
    read on, for this reason. `head_bytes` and `count` (of fields) grow as the head arrives.
    """

    __slots__ = (
        "_named",
        "bad",
        "chunks",
        "count",
        "expects",
        "fields",
        "head_bytes",
        "http11",
        "keep_alive",
        "length",
        "lines",
        "method",
        "size",
        "target",
        "whole",
    )

    def __init__(self) -> None:
        self.method = b""
        self.target = b""
        self.http11 = True
        self.keep_alive = True
        self.length = _NO_BODY
        self.expects = False
        self.lines: list[bytes] = []
        self.fields: dict[bytes, bytes] = {}
        self.bad: Refusal | None = None
        self.head_bytes = 0
        self.count = 0
        self.chunks: list[bytes] = []
        self.size = 0
        self.whole = False
        self._named: list[bytes] = []

    def add(self, name: bytes, value: bytes) -> Refusal | None:
        """Take one header field; a refusal if two of its kind contradict each other."""
        self.head_bytes += len(name) + len(value) + 4  # ": " and the line's end
        self.count += 1
        low = name.lower()
        if low not in _SEEN:
            self.lines.append(b"%b: %b" % (name, value))
            return None
        value = value.strip(b" \t")
        if low == b"connection":
            self._named += [each.strip().lower() for each in value.split(b",")]
        elif low in _ONCE and low in self.fields:
            return invalid(f"the header {low.decode()} stands twice", "bad_request")
        elif low not in _NOT_SENT_ON:
            self.lines.append(b"%b: %b" % (name, value))
        self.fields[low] = value
        return None

    def close_head(self, method: bytes, version: str, *, keep_alive: bool) -> Refusal | None:
        """The head is there: what its fields say together; a refusal if that is not HTTP/1.x as RFC 9112 has it."""
        self.method = method
        self.keep_alive = keep_alive
        self.http11 = version == "1.1"
        if version not in ("1.0", "1.1"):
            return invalid(f"HTTP/{version} is not spoken here; use HTTP/1.1", "http_version", 505)
        if refusal := self._absolute() or self._framing():
            return refusal
        if self.http11 and b"host" not in self.fields:
            return invalid("an HTTP/1.1 request must carry a Host header", "bad_request")
        expect = self.fields.get(b"expect")
        if expect is not None and expect.lower() != b"100-continue":
            return invalid("Expect can only be 100-continue", "expectation_failed", 417)
        self.expects = expect is not None and self.http11 and self.length != _NO_BODY
        if self._named:
            self._drop_named()
        return None

    def body(self) -> bytes:
        """What of the body has arrived and is kept."""
        if len(self.chunks) != 1:
            self.chunks = [b"".join(self.chunks)]
        return self.chunks[0]

    def text(self, name: bytes) -> str:
        """A header's value, "" if it is not there. Only for fields that routing looks at."""
        return self.fields.get(name, b"").decode("latin-1")

    def wants_upgrade(self) -> bytes | None:
        """The protocol that the client would rather speak, in small letters."""
        return self.fields[b"upgrade"].lower() if b"upgrade" in self.fields and b"upgrade" in self._named else None

    def _absolute(self) -> Refusal | None:
        """`http://authority/path` means that authority and `/path` (RFC 9112 §3.2.2)."""
        if self.target[:7].lower() == b"http://":
            authority, slash, path = self.target[7:].partition(b"/")
            self.target = slash + path or b"/"
            self.fields[b"host"] = authority
        if self.target[:1] != b"/" or b"#" in self.target or not self.target.isascii():
            return invalid("the request's target must be a path like /v1/chat/completions", "bad_request")
        return None

    def _framing(self) -> Refusal | None:
        coding = self.fields.get(b"transfer-encoding")
        if coding is not None:
            if coding.lower() != b"chunked" or not self.http11:
                return invalid("Transfer-Encoding can only be chunked, and only in HTTP/1.1", "bad_request")
            self.length = _CHUNKED
        elif b"content-length" in self.fields:
            self.length = int(self.fields[b"content-length"])
        return None

    def _drop_named(self) -> None:
        """Fields that `Connection` names are for this hop alone."""
        named = set(self._named) - {b"keep-alive", b"close", b"upgrade", b"te"}
        if named:
            self.lines = [line for line in self.lines if line.partition(b":")[0].lower() not in named]
