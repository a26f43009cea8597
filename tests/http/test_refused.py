"""Requests that must not pass: each is refused with a precise status, its connection ends, and no engine hears of it.

Most are known ways of smuggling: a request that two servers in a row read differently. All are sent with a second,
innocent request behind them, which must not be answered: after a head that cannot be trusted nothing can.
"""

from collections.abc import Callable

import pytest

from tests.http.house import Place, chunked, request
from tests.http.wire import dial

HOST = "Host: portal"
BAD = frozenset({400})
CODING = frozenset({400, 501})
VERSION = frozenset({400, 505})

# The lines of the head after the request line, the bytes after it, the statuses that are right.
HEADS: dict[str, tuple[tuple[str, ...], bytes, frozenset[int]]] = {
    "a length, then chunks": ((HOST, "Content-Length: 5", "Transfer-Encoding: chunked"), b"0\r\n\r\n", BAD),
    "chunks, then a length": ((HOST, "Transfer-Encoding: chunked", "Content-Length: 5"), b"0\r\n\r\n", BAD),
    "a length of zero and chunks": ((HOST, "Content-Length: 0", "Transfer-Encoding: chunked"), chunked(b"a"), BAD),
    "two lengths": ((HOST, "Content-Length: 5", "Content-Length: 6"), b"hello", BAD),
    "two lengths far apart": ((HOST, "Content-Length: 5", "X-A: b", "content-length: 0"), b"hello", BAD),
    "a length with a plus": ((HOST, "Content-Length: +5"), b"hello", BAD),
    "a length below zero": ((HOST, "Content-Length: -5"), b"hello", BAD),
    "a length of -0": ((HOST, "Content-Length: -0"), b"", BAD),
    "two lengths in one": ((HOST, "Content-Length: 5,6"), b"hello", BAD),
    "the same length twice in one": ((HOST, "Content-Length: 5,5"), b"hello", BAD),
    "a length in hex": ((HOST, "Content-Length: 0x5"), b"hello", BAD),
    "a length with an underscore": ((HOST, "Content-Length: 1_0"), b"helloworld", BAD),
    "a length with a point": ((HOST, "Content-Length: 5.0"), b"hello", BAD),
    "a length of foreign digits": ((HOST, "Content-Length: \xb2"), b"hello", BAD),
    "a length with a space in it": ((HOST, "Content-Length: 5 5"), b"hello", BAD),
    "a length of nothing": ((HOST, "Content-Length:"), b"hello", BAD),
    "a length of letters": ((HOST, "Content-Length: abc"), b"hello", BAD),
    "a length beyond 64 bits": ((HOST, "Content-Length: 18446744073709551621"), b"hello", frozenset({400, 413})),
    "a length beyond all bounds": ((HOST, "Content-Length: " + "9" * 400), b"hello", frozenset({400, 413})),
    "a coding that sounds like it": ((HOST, "Transfer-Encoding: xchunked"), chunked(b"a"), CODING),
    "a coding with a control before it": ((HOST, "Transfer-Encoding: \x0bchunked"), chunked(b"a"), CODING),
    "a coding with a NUL after it": ((HOST, "Transfer-Encoding: chunked\0"), chunked(b"a"), CODING),
    "a coding with a tail": ((HOST, "Transfer-Encoding: chunked;a=b"), chunked(b"a"), CODING),
    "a coding in quotes": ((HOST, 'Transfer-Encoding: "chunked"'), chunked(b"a"), CODING),
    "chunked, then identity": ((HOST, "Transfer-Encoding: chunked, identity"), chunked(b"a"), CODING),
    "identity": ((HOST, "Transfer-Encoding: identity"), b"", CODING),
    "identity and a length": ((HOST, "Transfer-Encoding: identity", "Content-Length: 5"), b"hello", CODING),
    "gzip, then chunked": ((HOST, "Transfer-Encoding: gzip, chunked"), chunked(b"a"), CODING),
    "chunked, then gzip": ((HOST, "Transfer-Encoding: chunked, gzip"), chunked(b"a"), CODING),
    "chunked twice in one": ((HOST, "Transfer-Encoding: chunked, chunked"), chunked(b"a"), CODING),
    "chunked twice": ((HOST, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), chunked(b"a"), CODING),
    "chunked, identity apart": (
        (HOST, "Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        chunked(b"a"),
        CODING,
    ),
    "a coding of nothing": ((HOST, "Transfer-Encoding:"), b"", CODING),
    "a coding of nothing and a length": ((HOST, "Transfer-Encoding:", "Content-Length: 5"), b"hello", CODING),
    "a folded header": ((HOST, "X-A: b\r\n c", "Content-Length: 2"), b"{}", BAD),
    "a folded coding": ((HOST, "Transfer-Encoding:\r\n chunked"), chunked(b"a"), CODING),
    "a fold as first header": ((" X-A: b", HOST, "Content-Length: 2"), b"{}", BAD),
    "a tab before a header": (("\tX-A: b", HOST, "Content-Length: 2"), b"{}", BAD),
    "a space before the colon": ((HOST, "Content-Length : 2"), b"{}", BAD),
    "a tab before the colon": ((HOST, "Transfer-Encoding\t: chunked"), chunked(b"a"), BAD),
    "a space in a name": ((HOST, "X A: b", "Content-Length: 2"), b"{}", BAD),
    "a name of nothing": ((HOST, ": b", "Content-Length: 2"), b"{}", BAD),
    "no colon": ((HOST, "X-A", "Content-Length: 2"), b"{}", BAD),
    "a name of other letters": ((HOST, "X-\xe4: b", "Content-Length: 2"), b"{}", BAD),
    "a name with a bracket": ((HOST, "X(A): b", "Content-Length: 2"), b"{}", BAD),
    "a NUL in a name": ((HOST, "X-\0A: b", "Content-Length: 2"), b"{}", BAD),
    "a NUL in a value": ((HOST, "X-A: \0b", "Content-Length: 2"), b"{}", BAD),
    "a control in a value": ((HOST, "X-A: a\x01b", "Content-Length: 2"), b"{}", BAD),
    "a vertical tab in a value": ((HOST, "X-A: a\x0bb", "Content-Length: 2"), b"{}", BAD),
    "a DEL in a value": ((HOST, "X-A: a\x7fb", "Content-Length: 2"), b"{}", BAD),
    "a bare CR in a value": ((HOST, "X-A: a\rTransfer-Encoding: chunked", "Content-Length: 2"), b"{}", BAD),
    "a bare LF in a value": ((HOST, "X-A: a\nTransfer-Encoding: chunked", "Content-Length: 5"), b"0\r\n\r\n", BAD),
    "a bare LF after a line": ((HOST + "\nX-A: b", "Content-Length: 2"), b"{}", BAD),
    "no Host": (("Content-Length: 2",), b"{}", BAD),
    "two Hosts": ((HOST, "Host: other", "Content-Length: 2"), b"{}", BAD),
    "the same Host twice": ((HOST, HOST, "Content-Length: 2"), b"{}", BAD),
    "a Host with a space": (("Host: a b", "Content-Length: 2"), b"{}", BAD),
    "a Host with a path": (("Host: a/b", "Content-Length: 2"), b"{}", BAD),
    "a Host with a user": (("Host: u@chat.team-a", "Content-Length: 2"), b"{}", BAD),
}


def refused(here: Place, raw: bytes, statuses: frozenset[int]) -> None:
    """Refused so, once, in the shape of an error, and closed; nothing of it is heard by the engine."""
    with dial(here.address) as line:
        line.send(raw + here.post(body=b'{"smuggled": 1}'))
        answers = line.answers()

    assert [answer.status in statuses for answer in answers] == [True], answers
    assert answers[0].closes
    answers[0].error()
    assert here.engine.raw == b""
    here.serves()


@pytest.mark.parametrize("case", HEADS)
def test_a_head_that_can_be_read_in_two_ways_is_refused(here: Place, case: str) -> None:
    lines, after, statuses = HEADS[case]
    head = "\r\n".join([f"POST {here.path} HTTP/1.1", *lines, "", ""]).encode("latin-1")
    refused(here, head + after, statuses)


CHUNKS = {
    "a size of letters": b"xyz\r\nhello\r\n0\r\n\r\n",
    "a size below zero": b"-5\r\nhello\r\n0\r\n\r\n",
    "a size with a plus": b"+5\r\nhello\r\n0\r\n\r\n",
    "a size with 0x": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a size with an underscore": b"0_5\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "only an extension": b";a=b\r\nhello\r\n0\r\n\r\n",
    "a space before the size": b" 5\r\nhello\r\n0\r\n\r\n",
    "a size beyond 64 bits": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "a size beyond all bounds": b"f" * 400 + b"\r\nhello\r\n0\r\n\r\n",
    "a size that ends in LF": b"5\nhello\r\n0\r\n\r\n",
    "a size that ends in CR": b"5\rhello\r\n0\r\n\r\n",
    "a chunk longer than its size": b"3\r\nhello\r\n0\r\n\r\n",
    "no end of a chunk": b"5\r\nhello0\r\n\r\n",
    "an LF for its end": b"5\r\nhello\n0\r\n\r\n",
    "two letters for its end": b"5\r\nhelloXX0\r\n\r\n",
    "a NUL in an extension": b"5;a=\0\r\nhello\r\n0\r\n\r\n",
    "an LF in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "a CR in an extension": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "a trailer without a colon": b"5\r\nhello\r\n0\r\nX-A\r\n\r\n",
    "a NUL in a trailer": b"5\r\nhello\r\n0\r\nX-A: \0\r\n\r\n",
}


@pytest.mark.parametrize("case", CHUNKS)
def test_a_chunk_that_can_be_read_in_two_ways_is_refused(here: Place, case: str) -> None:
    raw = request("POST", here.path, "Transfer-Encoding: chunked", body=None) + CHUNKS[case]
    refused(here, raw, BAD)


@pytest.mark.parametrize(
    "name", ["Content-Length: 9", "Transfer-Encoding: identity", "Host: other", "Content-Encoding: gzip"]
)
def test_a_trailer_means_nothing(here: Place, name: str) -> None:
    """It may be refused, for it has no good reason to be there; if it is not, it changes nothing."""
    raw = request("POST", here.path, "Transfer-Encoding: chunked", body=None)
    with dial(here.address) as line:
        line.send(raw + b"5\r\nhello\r\n0\r\n" + name.encode() + b"\r\n\r\n" + here.post(b"Connection: close".decode()))
        answers = line.answers()

    if answers[0].status == 400:
        assert (len(answers), here.engine.raw) == (1, b"")
    else:
        assert [answer.status for answer in answers] == [200, 200]
        assert [seen.body for seen in here.engine.seen] == [b"hello", b"{}"]
    here.serves()


REQUEST_LINES: dict[str, tuple[bytes, frozenset[int]]] = {
    "HTTP/0.9": (b"GET PATH\r\n", BAD),
    "HTTP/0.9, nothing more": (b"GET /\r\n\r\n", VERSION),
    "no version": (b"POST PATH\r\nHost: a\r\nContent-Length: 0\r\n\r\n", VERSION),
    "HTTP/1.2": (b"POST PATH HTTP/1.2\r\nHost: a\r\nContent-Length: 0\r\n\r\n", VERSION),
    "HTTP/2.0": (b"POST PATH HTTP/2.0\r\nHost: a\r\nContent-Length: 0\r\n\r\n", VERSION),
    "HTTP/3": (b"POST PATH HTTP/3\r\nHost: a\r\nContent-Length: 0\r\n\r\n", VERSION),
    "HTTP/11": (b"POST PATH HTTP/11\r\nHost: a\r\nContent-Length: 0\r\n\r\n", VERSION),
    "http in small letters": (b"POST PATH http/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", VERSION),
    "a word after the version": (b"POST PATH HTTP/1.1 x\r\nHost: a\r\nContent-Length: 0\r\n\r\n", BAD),
    "a tab for a space": (b"POST\tPATH HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", BAD),
    "a space before the method": (b" POST PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", BAD),
    "a bare LF after it": (b"POST PATH HTTP/1.1\nHost: a\r\nContent-Length: 0\r\n\r\n", BAD),
    "a bare CR after it": (b"POST PATH HTTP/1.1\rHost: a\r\nContent-Length: 0\r\n\r\n", BAD),
    "a NUL in the method": (b"PO\0ST PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", BAD),
    "a NUL in the target": (b"POST PATH\0 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", BAD),
    "a control in the target": (b"POST PATH\x01 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", BAD),
    "a space in the target": (b"POST PATH x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", BAD),
    "a CR in the target": (b"POST PATH\rx HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", BAD),
    "a byte over 127 in the target": (
        b"POST PATH\xe4 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        frozenset({400, 404}),
    ),
    "a fragment": (b"POST PATH#x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", frozenset({400, 404})),
    "no slash": (b"POST v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", BAD),
    "no target": (b"POST  HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", BAD),
    "a URL of a file": (
        b"POST file:///etc/passwd HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        frozenset({400, 404}),
    ),
    "only an asterisk": (b"POST * HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", frozenset({400, 404})),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", frozenset({400, 405, 505})),
    "a TLS hello": (b"\x16\x03\x01\x00\xc4\x01\x00\x00\xc0\x03\x03" + bytes(range(185)) * 2, BAD),
    "SSH": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", BAD),
    "an answer": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", BAD),
    "noise": (bytes(range(128, 256)) * 4 + b"\r\n\r\n", BAD),
    "NULs": (bytes(512), BAD),
    "chunks to HTTP/1.0": (
        b"POST PATH HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        CODING,
    ),
    "chunks and a length to HTTP/1.0": (
        b"POST PATH HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
        CODING,
    ),
}


@pytest.mark.parametrize("case", REQUEST_LINES)
def test_a_request_line_that_is_none_is_refused(here: Place, case: str) -> None:
    raw, statuses = REQUEST_LINES[case]
    refused(here, raw.replace(b"PATH", here.path.encode()), statuses)


AMBIGUOUS = [
    "/v1/%00", "/v1/a%0d%0aX:%20y", "/v1/../sleep", "/v1/%2e%2e/sleep", "/v1/./x", "/v1//x", "/v1/a%5cb",
    "/v1/%2E/%2e%2E/sleep", "/sleep", "/metrics", "//v1/completions", "/v1/load_lora_adapter",
    "/v1/load_lora_adapter/", "/v1/%6coad_lora_adapter", "/v1/load_lora_adapter?x", "/v1", "/v1/../../sleep",
]  # fmt: skip


@pytest.mark.parametrize("target", AMBIGUOUS)
def test_a_path_that_could_mean_another_reaches_no_engine(here: Place, target: str) -> None:
    """Also behind a service's prefix, which is taken away before the engine reads it."""
    for path in (target, f"/{here.service}{target}"):
        with dial(here.address) as line:
            line.send(request("POST", path, "Connection: close", body=b'{"model": "%s"}' % here.name.encode()))
            (answer,) = line.answers()
        assert answer.status in (400, 404), answer
        answer.error()
    assert here.engine.raw == b""


@pytest.mark.parametrize(
    "target", ["/v1/..;/sleep", "/v1/%c0%ae%c0%ae/sleep", "/v1/a%2fb", "/v1/%252e%252e/sleep", "/v1/a?/../b"]
)
def test_an_odd_path_goes_on_to_the_letter_or_not_at_all(here: Place, target: str) -> None:
    """To vLLM these are names like others: it decodes a path once and knows no parameters in it."""
    with dial(here.address) as line:
        line.send(request("POST", f"/{here.service}{target}", body=b"{}"))
        answer = line.answer()

    assert answer.status in (200, 400, 404)
    assert [seen.target for seen in here.engine.seen] == ([target] if answer.status == 200 else [])


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_the_same_length_twice_is_refused_or_one(here: Place, version: str) -> None:
    """RFC 9110 §8.6 leaves the choice."""
    raw = request("POST", here.path, "Content-Length: 2", "Content-Length: 2", body=None, version=f"HTTP/{version}")
    with dial(here.address) as line:
        line.send(raw + b"{}")
        answer = line.answer()

    assert answer.status == 400 or [seen.body for seen in here.engine.seen] == [b"{}"]
    assert all(len(seen.all("content-length")) == 1 for seen in here.engine.seen)


def test_spaces_too_many_in_a_request_line_are_refused_or_read_as_one(here: Place) -> None:
    """RFC 9112 §3 allows both; what goes on is written anew."""
    with dial(here.address) as line:
        line.send(here.post().replace(b"POST ", b"POST   ", 1))
        answer = line.answer()

    assert answer.status == 400 or [seen.target for seen in here.engine.seen] == ["/v1/completions"]


def test_a_whole_url_is_refused_or_means_its_path(here: Place) -> None:
    """RFC 9112 §3.2.2: its authority counts, the Host header does not, and the engine gets the path alone."""
    with dial(here.address) as line:
        line.send(here.post().replace(b"POST ", b"POST http://other.example:1", 1))
        answer = line.answer()

    assert answer.status == 400 or [seen.target for seen in here.engine.seen] == ["/v1/completions"]
    assert b"other.example" not in here.engine.raw


def test_the_authority_of_a_url_names_the_service_and_host_does_not(settle: Callable[..., Place]) -> None:
    one, other = settle(), settle()
    raw = request("POST", f"http://{one.name}.http.local/v1/completions", f"Host: {other.name}.http.local", body=b"{}")
    with dial(one.address) as line:
        line.send(raw)
        answer = line.answer()

    assert other.engine.raw == b""
    assert answer.status == 400 or [seen.target for seen in one.engine.seen] == ["/v1/completions"]


FILLERS = {
    "an extension": b"5;" + b"a" * 2**25 + b"\r\nhello\r\n0\r\n\r\n",
    "trailers": b"0\r\n" + b"X-A: b\r\n" * 2**22 + b"\r\n",
}


@pytest.mark.parametrize("what", FILLERS)
def test_what_is_dropped_costs_no_memory_however_long_it_is(here: Place, what: str) -> None:
    here.house.forget_peak()
    before = here.house.rss_bytes()
    with dial(here.address) as line:
        line.send(request("POST", here.path, "Transfer-Encoding: chunked", body=None) + FILLERS[what])
        answer = line.answer()

    assert answer.status in (200, 400, 413, 431)
    assert here.house.rss_bytes() - before < 2**23
    here.serves()


def test_an_http_1_0_request_needs_no_host(here: Place) -> None:
    with dial(here.address) as line:
        line.send(f"POST {here.path} HTTP/1.0\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        assert line.answer().status == 200


def test_an_engine_reads_no_header_that_the_client_did_not_write(here: Place) -> None:
    """Values go on as they are, whatever they look like; a new line can not be among them (see above)."""
    odd = ["X-A: %0d%0aX-B: c", "X-C: \\r\\nX-D: e", "X-E: \xe4\xff", "X-F: a\tb", "X-G: ;=,\"'()", "X-H:", "X-I: é"]
    with dial(here.address) as line:
        line.send(here.post(*odd))
        assert line.answer().status == 200

    (seen,) = here.engine.seen
    for each in odd:
        name, _, value = each.partition(":")
        assert seen.all(name) == [value.strip()]
    assert not seen.all("x-b")
    assert not seen.all("x-d")
