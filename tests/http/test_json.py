"""Which model a body means: read as the engine will read it, and handed on as it came, whatever oddity it has."""

import json
from collections.abc import Callable

import pytest

from tests.http.house import Place, request
from tests.http.wire import Answer

LIMIT = 8 * 2**20

NAMES = {
    "plain": '{"model": "NAME"}',
    "the last of two": '{"model": "nobody", "model": "NAME"}',
    "the last of three": '{"model": {"a": 1}, "x": 1, "model": "nobody", "model": "NAME"}',
    "an escaped key": '{"\\u006dodel": "NAME"}',
    "an escaped key after a plain one": '{"model": "nobody", "m\\u006fdel": "NAME"}',
    "an escaped value": '{"model": "\\u0068ttp\\/NAME"}',
    "another model inside": '{"messages": [{"model": "nobody"}], "model": "NAME", "x": {"model": "nobody"}}',
    "a model in a text": '{"text": "\\"model\\": \\"nobody\\"", "model": "NAME"}',
    "a key that ends so": '{"xmodel": "nobody", "model": "NAME", "model ": "nobody", "Model": "nobody"}',
    "white space": ' \n\t{ "model"\r\n : \t"NAME" } \n',
    "after a number without end": '{"n": ' + "9" * 5000 + ', "model": "NAME"}',
    "after an exponent": '{"n": 1e400, "m": -0.0, "model": "NAME"}',
    "not a number": '{"n": NaN, "m": -Infinity, "model": "NAME"}',
    "half of a surrogate pair": '{"text": "\\ud800", "model": "NAME"}',
    "a NUL in a text": '{"text": "\\u0000", "model": "NAME"}',
    "other scripts": '{"text": "日本語 🙂 \u202e", "model": "NAME"}',
    "many keys": "{" + ", ".join(f'"k{n}": {n}' for n in range(50_000)) + ', "model": "NAME"}',
    "some depth": '{"x": ' + "[" * 100 + "]" * 100 + ', "model": "NAME"}',
}


def ask(here: Place, body: bytes) -> Answer:
    line = here.line()
    line.send(request("POST", "/v1/chat/completions", "Content-Type: application/json", body=body))
    return line.answer()


def written(here: Place, text: str) -> bytes:
    return text.replace("NAME", here.name).encode()


@pytest.mark.parametrize("case", NAMES)
def test_the_model_is_the_one_that_the_engine_will_read(here: Place, case: str) -> None:
    body = written(here, NAMES[case])
    answer = ask(here, body)

    if case in ("not a number", "half of a surrogate pair", "after a number without end", "after an exponent"):
        # Readers differ on these: refused by name, or passed to the service that Python's reader names.
        assert answer.status in (200, 400)
    else:
        assert answer.status == 200
    assert [seen.body for seen in here.engine.seen] == ([body] if answer.status == 200 else [])


NOT_JSON = {
    "nothing": b"",
    "white space": b"  ",
    "text": b"hello",
    "a list": b"[]",
    "a string": b'"model"',
    "null": b"null",
    "a number": b"1",
    "no end": b'{"model": "NAME"',
    "something after it": b'{"model": "NAME"} x',
    "two of them": b'{"model": "NAME"}{"model": "nobody"}',
    "a comma too many": b'{"model": "NAME",}',
    "single quotes": b"{'model': 'NAME'}",
    "no quotes": b"{model: 'NAME'}",
    "a comment": b'{/* a */ "model": "NAME"}',
    "a new line in a text": b'{"text": "a\nb", "model": "NAME"}',
    "a NUL before it": b'\0{"model": "NAME"}',
    "a NUL after it": b'{"model": "NAME"}\0',
    "100,000 brackets": b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b', "model": "NAME"}',
    "100,000 braces": b'{"x":' * 100_000 + b"1" + b"}" * 100_000,
    "brackets that never close": b"[" * 1_000_000,
    "a model of another kind": b'{"model": 1}',
    "a model of nothing": b'{"model": ""}',
    "a model of null": b'{"model": null}',
    "a list of models": b'{"model": ["NAME"]}',
    "no model": b'{"messages": []}',
    "the last of two is no name": b'{"model": "NAME", "model": null}',
}


@pytest.mark.parametrize("case", NOT_JSON)
def test_what_names_no_model_is_400(here: Place, case: str) -> None:
    answer = ask(here, NOT_JSON[case].replace(b"NAME", here.name.encode()))

    assert answer.status == 400
    assert answer.error()["code"] in ("invalid_json", "model_missing")
    assert here.engine.raw == b""


NOT_UTF8 = {
    "another charset": b"\xe4",
    "half a letter": b"\xc3",
    "a letter in too many bytes": b"\xc0\xaf",
    "a surrogate in bytes": b"\xed\xa0\x80",
}


@pytest.mark.parametrize("case", NOT_UTF8)
def test_a_text_that_is_not_utf_8_is_refused_or_passed_as_it_is(here: Place, case: str) -> None:
    """It does not touch which model is meant, and engines refuse it themselves."""
    body = b'{"text": "%s", "model": "%s"}' % (NOT_UTF8[case], here.name.encode())
    answer = ask(here, body)

    assert answer.status in (200, 400)
    assert [seen.body for seen in here.engine.seen] == ([body] if answer.status == 200 else [])


@pytest.mark.parametrize("case", NOT_UTF8)
@pytest.mark.parametrize(
    "body", [b'{"model": "NAME%s"}', b'{"model": "%sNAME"}', b'{"%smodel": "NAME"}', b'{"model%s": "NAME"}']
)
def test_a_model_that_is_not_utf_8_is_nobodys(here: Place, case: str, body: bytes) -> None:
    answer = ask(here, (body % NOT_UTF8[case]).replace(b"NAME", here.name.encode()))

    assert answer.status in (400, 404)
    assert here.engine.raw == b""


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"])
def test_a_byte_order_mark_is_read_or_refused(here: Place, mark: bytes) -> None:
    """RFC 8259 §8.1: it must not be sent, may be passed over; whatever is passed on is passed as it came."""
    text = f'{{"model": "{here.name}"}}'
    body = mark + text.encode({b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(mark, "utf-8"))
    answer = ask(here, body)

    assert answer.status in (200, 400)
    assert [seen.body for seen in here.engine.seen] == ([body] if answer.status == 200 else [])


@pytest.mark.parametrize("name", ["\\ud800", "\\u0000", "<script>", "a\\nb", "../x", "x" * 10_000, "日本"])
def test_a_name_that_nobody_has_is_told_safely(here: Place, name: str) -> None:
    answer = ask(here, f'{{"model": "{name}"}}'.encode())

    assert answer.status == 404
    assert len(answer.error()["message"]) < 2000
    assert here.engine.raw == b""


def test_the_largest_body_with_its_model_last(here: Place) -> None:
    end = f'", "model": "{here.name}"}}'.encode()
    begin = b'{"text": "'
    body = begin + b"x" * (LIMIT - len(begin) - len(end)) + end
    assert len(body) == LIMIT

    assert ask(here, body).status == 200
    assert here.engine.seen[0].body == body


def test_one_byte_more_is_413(here: Place) -> None:
    answer = ask(here, b'{"model": "%s", "text": "' % here.name.encode() + b"x" * LIMIT + b'"}')

    assert (answer.status, answer.error()["code"]) == (413, "body_too_large")


def test_two_services_are_never_mixed_up(settle: Callable[..., Place]) -> None:
    """Duplicate keys are how one would be asked for with the other's name."""
    one, two = settle(), settle()
    for first, last in ((one, two), (two, one)):
        for body in (
            f'{{"model": "{first.name}", "model": "{last.name}"}}',
            f'{{"model": "{first.name}", "mode\\u006c": "{last.name}"}}',
            f'{{"x": {{"model": "{first.name}"}}, "model": "{last.name}", "y": {{"model": "{first.name}"}}}}',
        ):
            assert json.loads(body)["model"] == last.name
            seen = len(last.engine.seen), len(first.engine.seen)
            assert ask(last, body.encode()).status == 200
            assert (len(last.engine.seen), len(first.engine.seen)) == (seen[0] + 1, seen[1])
