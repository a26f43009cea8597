"""What is asked that a portal does not do: other methods, other protocols. Each has its own precise answer."""

import pytest

from tests.http.house import Place, request

OTHERS = ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "LINK"]


@pytest.mark.parametrize("method", OTHERS)
@pytest.mark.parametrize("body", [None, b'{"a": 1}'], ids=["alone", "with a body"])
def test_other_methods_are_405_with_those_allowed(here: Place, method: str, body: bytes | None) -> None:
    line = here.line()
    line.send(request(method, here.path, body=body))
    answer = line.answer(method)

    assert answer.status == 405
    assert answer.header("allow") == "GET, POST"
    assert method in answer.error()["message"]
    assert here.engine.raw == b""
    if answer.closes:
        assert line.ended() == b""
    else:
        line.send(here.post())
        assert line.answer().status == 200


def test_head_is_405_without_a_body(here: Place) -> None:
    line = here.line()
    line.send(request("HEAD", here.path, body=None))
    answer = line.answer("HEAD")

    assert (answer.status, answer.header("allow")) == (405, "GET, POST")
    if answer.closes:
        assert line.ended() == b""
    else:
        line.send(here.post())
        assert line.answer().status == 200
    assert here.engine.raw.count(b"HTTP/1.1") == len(here.engine.seen)


@pytest.mark.parametrize(
    "raw", [b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"]
)
def test_targets_that_other_methods_have(here: Place, raw: bytes) -> None:
    line = here.line()
    line.send(raw)
    answer = line.answer()

    assert (answer.status, answer.header("allow")) == (405, "GET, POST")
    assert here.engine.raw == b""


@pytest.mark.parametrize("method", ["BREW", "post", "G", "X" * 100, "P()ST"])
def test_methods_that_nobody_knows(here: Place, method: str) -> None:
    line = here.line()
    line.send(request(method, here.path))
    answer = line.answer()

    assert answer.status in (400, 405, 501)
    answer.error()
    assert here.engine.raw == b""


@pytest.mark.parametrize("more", [[], ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"]])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_websocket_is_refused_by_name(here: Place, more: list[str], method: str) -> None:
    line = here.line()
    line.send(request(method, here.path, "Connection: Upgrade", "Upgrade: websocket", *more))
    answer = line.answer()

    assert answer.status == 501
    assert answer.error()["code"] == "upgrade_refused"
    assert here.engine.raw == b""


@pytest.mark.parametrize("asks", ["h2c", "TLS/1.0", "h2c, websocket2"])
def test_another_upgrade_is_passed_over(here: Place, asks: str) -> None:
    line = here.line()
    line.send(here.post("Connection: Upgrade, HTTP2-Settings", f"Upgrade: {asks}", "HTTP2-Settings: AAMAAABkAAQAAP__"))
    answer = line.answer()

    assert (answer.status, answer.version) == (200, "1.1")
    (seen,) = here.engine.seen
    assert {name.lower() for name, _ in seen.headers} & {"upgrade", "http2-settings"} == set()
    if answer.closes:
        assert line.ended() == b""
        return
    line.send(here.post())
    assert line.answer().status == 200, "what follows is a request and nothing else"


def test_upgrade_without_connection_asks_for_nothing(here: Place) -> None:
    """RFC 9110 §7.8: a sender of Upgrade must name it in Connection; without that it is a header like others."""
    line = here.line()
    line.send(here.post("Upgrade: h2c"))

    assert line.answer().status == 200
    assert not here.engine.seen[0].all("upgrade")
