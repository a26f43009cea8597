"""The API's token: who has none is told nothing, and it stands in one file only."""

import base64
import re
import stat

import httpx
import psutil
import pytest

from tests.serving import Up

PATHS = ("/v1/services", "/v1/plan", "/v1/holds", "/v1/events", "/metrics", "/v1/services/test/chat", "/nothing")


def token(up: Up) -> str:
    return (up.state / "token").read_text().strip()


def url(up: Up) -> str:
    return str(httpx.URL(re.findall(r'"url": "([^"]+)"', (up.state / "api.json").read_text())[0]))


def test_the_file_is_its_users_alone(up: Up) -> None:
    for name in ("token", "api.json", "history.sqlite3"):
        path = up.state / name
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or stat.S_IMODE(up.state.stat().st_mode) == 0o700, name
    assert stat.S_IMODE((up.state / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(up.state.stat().st_mode) == 0o700
    assert len(base64.urlsafe_b64decode(token(up) + "=")) == 32  # bytes of the system's randomness


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "TRACE", "BREW"])
def test_no_method_of_any_path_answers_without_it(up: Up, method: str, path: str) -> None:
    answer = httpx.request(method, url(up) + path, timeout=10)
    assert answer.status_code == 401, answer.text
    assert "access-control-allow-origin" not in answer.headers


def test_every_token_but_the_true_one_is_refused(up: Up) -> None:
    true = token(up)
    wrong = [
        true[:-1],
        true + "x",
        true[1:],
        true.swapcase(),
        true[::-1],
        "null",
        "*",
        "%",
        "x" * 8000,
        f"{true},",
    ]
    wrong += [f"{true} {true}", f'"{true}"', base64.b64encode(true.encode()).decode(), true + "\xe9"]
    for each in wrong:
        headers = [(b"Authorization", f"Bearer {each}".encode("latin-1"))]
        assert httpx.get(url(up) + "/v1/services", headers=headers, timeout=10).status_code == 401, each
    for scheme in ("Basic", "Token", "bearer:", "Bearer:", "Bearer Bearer"):
        headers = [(b"Authorization", f"{scheme} {true}".encode())]
        assert httpx.get(url(up) + "/v1/services", headers=headers, timeout=10).status_code == 401, scheme
    for elsewhere in ({"params": {"token": true}}, {"cookies": {"token": true}}, {"headers": {"X-Token": true}}):
        assert httpx.get(url(up) + "/v1/services", timeout=10, **elsewhere).status_code == 401  # type: ignore[arg-type]  # one of three keywords
    assert httpx.get(url(up) + "/v1/services", headers={"Authorization": f"Bearer {true}"}).status_code == 200


def test_it_is_in_no_log_no_argument_no_environment_and_no_answer(up: Up) -> None:
    secret = token(up)
    assert up.ask("chat").status_code == 200
    for path in ("/docs", "/openapi.json", "/healthz", "/readyz", *PATHS):
        assert secret not in httpx.get(url(up) + path).text
        assert secret not in up.api("GET", path).text
    assert secret not in up.api("GET", f"/v1/services/test/{secret[:-1]}").text
    httpx.get(url(up) + "/v1/services", headers={"Authorization": f"Bearer x{secret}"})
    processes = up.processes()
    assert len(processes) >= 4
    for process in processes:
        assert secret not in " ".join(process.cmdline())
        try:
            assert secret not in process.environ().values()
        except psutil.Error:  # vLLM's children write their titles over it
            continue
    holders = [path for path in up.state.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert holders == [up.state / "token"]
    assert secret not in up.said()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.nip.io", "0.0.0.0", "[::]", "", "localhost."]
)
@pytest.mark.parametrize("path", ["/healthz", "/docs", "/openapi.json", "/v1/services"])
def test_a_page_that_resolves_its_own_name_to_loopback_is_refused(up: Up, host: str, path: str) -> None:
    answer = httpx.get(url(up) + path, headers={"Host": host, "Authorization": f"Bearer {token(up)}"})
    assert answer.status_code in (400, 403)
    assert "test/chat" not in answer.text


@pytest.mark.parametrize("path", ["/healthz", "/docs", "/openapi.json", "/v1/services"])
def test_no_answer_lets_a_page_of_another_site_read_embed_or_frame_it(up: Up, path: str) -> None:
    headers = {"Origin": "http://evil.example", "Authorization": f"Bearer {token(up)}", "Sec-Fetch-Site": "cross-site"}
    answer = httpx.get(url(up) + path, headers=headers)
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    refused = httpx.options(
        url(up) + "/v1/holds", headers=preflight | {"Access-Control-Request-Headers": "authorization"}
    )
    assert refused.status_code == 401
    assert "access-control-allow-origin" not in refused.headers


def test_a_form_of_another_site_cannot_ask_for_a_hold(up: Up) -> None:
    """What a browser sends without asking first: no token, and no JSON content type."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        body = '{"service": "test/chat", "for_s": 60}'
        answer = httpx.post(url(up) + "/v1/holds", content=body, headers={"Content-Type": kind})
        assert answer.status_code == 401
