"""A pod's reports against a small HTTP server: what arrives, and what an absent or strange controller costs."""

import http.server
import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import Failure, FailureCause, PodReport, Stage, StartKind, StartRecord
from runtime.host import reporter
from runtime.host.reporter import PATH, Controller, NotTold, Reporter
from tests.serving import free_port, wait_for

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def start(number: int = 1, **more: Any) -> StartRecord:
    values = {"service": "team-a/chat", "replica": "team-a/chat/0", "kind": StartKind.FORK, **more}
    return StartRecord(id=f"host-{number}", **values)


@dataclass
class Heard:
    """A controller of a few lines: what came, and what it answers (a status, or None: nothing at all)."""

    port: int
    answer: int | None = 204
    reports: list[PodReport] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    hang: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def until(self, test: Callable[[], object], saying: str) -> None:
        wait_for(lambda: test() or None, within_s=10, saying=f"{saying}: {self.reports}")


def serve(heard: Heard, tls: ssl.SSLContext | None = None) -> http.server.ThreadingHTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.tokens.append(self.headers["Authorization"])
            heard.paths.append(self.path)
            heard.reports.append(PodReport.model_validate_json(body))
            if heard.answer is None:
                heard.hang.wait(30)
                return
            self.send_response(heard.answer)
            self.send_header("Location", f"{heard.url}/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", heard.port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,)).start()
    return server


@pytest.fixture
def heard() -> Iterator[Heard]:
    made = Heard(free_port())
    server = serve(made)
    yield made
    made.hang.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("first\n")
    return file


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "RETRY_S", (0.01, 0.02))
    monkeypatch.setattr(reporter, "TIMEOUT_S", 0.5)


@pytest.fixture
def said() -> list[str]:
    return []


def begun(url: str, token: Path, said: list[str], settle_s: float = 0.01) -> Reporter:
    made = Reporter(Controller(url, token), "pod-1-7", say=said.append, settle_s=settle_s)
    made.begin()
    return made


def test_what_changes_arrives_whole(heard: Heard, token: Path, said: list[str]) -> None:
    telling = begun(heard.url, token, said)
    telling.changed(start(), Stage.COMPILE)
    heard.until(lambda: heard.reports, "the first report")
    telling.changed(start(outcome="ready", ready_s=3.0), None)
    heard.until(lambda: heard.reports[-1].starts[-1].outcome == "ready", "that it is ready")
    first, last = heard.reports[0], heard.reports[-1]
    assert (first.host, first.stage, last.stage) == ("pod-1-7", Stage.COMPILE, None)
    assert first.revision < last.revision
    assert heard.tokens[0] == "Bearer first"
    assert set(heard.paths) == {PATH}
    assert said == []


def test_changes_that_come_together_are_one_report(heard: Heard, token: Path, said: list[str]) -> None:
    telling = begun(heard.url, token, said, settle_s=0.3)
    for stage in Stage:
        telling.changed(start(), stage)
    heard.until(lambda: heard.reports, "a report")
    telling.close()
    assert len(heard.reports) == 1
    assert heard.reports[0].stage is list(Stage)[-1]


def test_the_newest_starts_are_kept(heard: Heard, token: Path, said: list[str]) -> None:
    telling = begun(heard.url, token, said, settle_s=0.3)
    for number in range(100):
        telling.changed(start(number), None)
    heard.until(lambda: heard.reports, "a report")
    kept = [each.id for each in heard.reports[-1].starts]
    assert kept == [f"host-{number}" for number in range(100 - reporter.KEPT_STARTS, 100)]
    telling.close()


def test_a_report_is_bounded(heard: Heard, token: Path, said: list[str]) -> None:
    told = Failure(cause=FailureCause.EXITED, message="x" * 200_000, at=NOON)
    telling = begun(heard.url, token, said, settle_s=0.3)
    for number in range(5):
        telling.changed(start(number, outcome="failed", failure=told), None)
    heard.until(lambda: heard.reports, "a report")
    assert [each.id for each in heard.reports[-1].starts] == ["host-3", "host-4"]
    telling.close()


def test_the_token_is_read_each_time(heard: Heard, token: Path, said: list[str]) -> None:
    telling = begun(heard.url, token, said)
    telling.changed(start(1), None)
    heard.until(lambda: heard.tokens, "the first token")
    token.write_text("second")
    telling.changed(start(2), None)
    heard.until(lambda: heard.tokens[-1] == "Bearer second", "the new token")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (401, "answered 401: it does not take this pod's token; is it one for the audience pilotlight-controller?"),
        (403, "answered 403: this pod's ServiceAccount may not report starts"),
        (404, "answered 404: is it a Pilotlight controller?"),
        (302, "answered 302"),
        (500, "answered 500"),
    ],
)
def test_a_controller_that_refuses_is_told_of_once_and_again_when_it_takes_it(
    heard: Heard, token: Path, said: list[str], answer: int, says: str
) -> None:
    heard.answer = answer
    telling = begun(heard.url, token, said)
    telling.changed(start(), None)
    heard.until(lambda: len(heard.reports) >= 3, "tried again")
    heard.answer = 204
    heard.until(lambda: len(said) == 2, "that it works again")
    assert said[0] == f"the controller is not told of this start: {heard.url} {says}; the start goes on"
    assert said[1] == "the controller is told of starts again"
    assert set(heard.paths) == {PATH}, "a token goes to no other place"


def test_what_a_controller_missed_it_is_told_when_it_is_back(token: Path, said: list[str]) -> None:
    later = Heard(free_port())
    telling = begun(later.url, token, said)
    for number in range(3):
        telling.changed(start(number, outcome="ready"), None)
    wait_for(lambda: said or None, within_s=10, saying="that nobody answers")
    assert "does not answer" in said[0]
    server = serve(later)
    try:
        later.until(lambda: later.reports, "the report that was kept")
        assert [each.id for each in later.reports[0].starts] == ["host-0", "host-1", "host-2"]
    finally:
        server.shutdown()
        server.server_close()


def test_one_that_never_answers_holds_nobody_up(heard: Heard, token: Path, said: list[str]) -> None:
    """`changed` must return while the thread hangs in a post: were it to wait, this would never get through."""
    heard.answer = None
    telling = begun(heard.url, token, said)
    telling.changed(start(0), None)
    heard.until(lambda: heard.reports, "it hangs")
    for number in range(1000):
        telling.changed(start(number), None)
    assert len(heard.reports) == 1, "still the first one"
    telling.close(within_s=0.05)


def test_the_last_word_is_told_before_the_end(heard: Heard, token: Path, said: list[str]) -> None:
    telling = begun(heard.url, token, said, settle_s=60)
    telling.changed(start(outcome="failed"), None)
    telling.close()
    assert heard.reports[-1].starts[-1].outcome == "failed"


def test_an_end_with_nothing_to_tell_waits_for_nothing(token: Path, said: list[str]) -> None:
    begun(f"http://127.0.0.1:{free_port()}", token, said).close(within_s=3600)
    assert said == []


def test_an_end_with_nobody_there_tries_once(token: Path, said: list[str]) -> None:
    telling = begun(f"http://127.0.0.1:{free_port()}", token, said, settle_s=60)
    telling.changed(start(), None)
    telling.close(within_s=3600)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("content", "says"), [(None, "no token at"), (" \n", "holds no token"), ("a\nb", "holds no token")]
)
def test_without_a_token_nothing_is_sent(
    heard: Heard, token: Path, said: list[str], content: str | None, says: str
) -> None:
    if content is None:
        token.unlink()
    else:
        token.write_text(content)
    telling = begun(heard.url, token, said)
    telling.changed(start(), None)
    heard.until(lambda: said, "why it is not told")
    assert says in said[0]
    assert "mount one for the audience pilotlight-controller" in said[0]
    assert heard.reports == []
    token.write_text("found")
    heard.until(lambda: heard.tokens == ["Bearer found"], "told as soon as there is one")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    both = tmp_path / "tls.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    subject = ["-subj", "/CN=controller", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, *subject, "-keyout", both, "-out", tmp_path / "ca.pem"], check=True, capture_output=True)
    both.write_text(both.read_text() + (tmp_path / "ca.pem").read_text())
    return tmp_path / "ca.pem"


def test_only_the_controller_that_is_proven_gets_the_token(token: Path, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.with_name("tls.pem"))
    made = Heard(free_port())
    server = serve(made, context)
    url = f"https://127.0.0.1:{made.port}/base/"
    body = PodReport(host="h", revision=1).model_dump_json().encode()
    try:
        with pytest.raises(NotTold, match="certificate verify failed"):
            reporter._post(Controller(url, token), body)
        assert made.tokens == []
        reporter._post(Controller(url, token, certificate), body)
        assert (made.tokens, made.paths) == (["Bearer first"], [f"/base{PATH}"])
        with pytest.raises(NotTold, match="does not answer"):
            reporter._post(Controller(url, token, certificate.with_name("none.pem")), body)
        certificate.rename(token.with_name("ca.crt"))
        reporter._post(Controller(url, token), body)
        assert len(made.tokens) == 2
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("controller:8443", "is no address: write https://HOST"),
        ("ftp://controller", "is no address"),
        ("https://", "is no address"),
        ("https://controller?x=1", "is no address"),
        ("http://controller.pilotlight.svc", "would tell the pod's token to everybody: write https://"),
        ("https://me:secret@controller", "holds a password"),
    ],
)
def test_addresses_that_are_refused(url: str, says: str, token: Path) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        Controller(url, token)
    assert "secret" not in str(caught.value)


def test_a_report_is_json_without_what_is_not_known() -> None:
    body = json.loads(reporter._body(PodReport(host="h", revision=1, starts=(start(),))))
    assert body["starts"][0]["id"] == "host-1"
    assert "outcome" not in body["starts"][0]
