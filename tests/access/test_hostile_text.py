"""Text of others, wherever it is shown: it forges no line, draws on no terminal, and ends no process."""

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.access.test_token import token, url
from tests.fakes.model import make_model
from tests.serving import Up, service, wait_for

FORGED = "12:00:00 stopped; nothing runs any more"
HOSTILE = f"board\n{FORGED}\r\n\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u2028</script><b>"
LINE = re.compile(r"\d\d:\d\d:\d\d |    ")


def cli(up: Up, *arguments: str) -> str:
    argv = [sys.executable, "-m", "activator_ext.app.cli", *arguments, "--state", str(up.state)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def tame(text: str) -> bool:
    """No control character but line ends, and no line that the hostile text begins."""
    return all(char == "\n" or char.isprintable() for char in text) and FORGED not in text.splitlines()


def test_a_holds_reason(up: Up) -> None:
    """In the event, in what `up` prints, in tables and lines of the command line."""
    asked = up.api("POST", "/v1/holds", {"service": "test/chat", "for_s": 60, "reason": HOSTILE})
    assert asked.status_code == 201
    assert asked.json()["reason"] == HOSTILE, "what was asked is kept as it was"
    event = next(text for text in up.events() if text.startswith(f"hold {asked.json()['id']}:"))
    assert FORGED in event
    assert event.isprintable()
    assert FORGED in up.said()
    assert tame(up.said())
    assert all(LINE.match(line) for line in up.said().splitlines())
    for command in (["holds"], ["events"], ["status"], ["status", "test/chat"]):
        shown = cli(up, *command)
        assert tame(shown), command
    assert up.api("DELETE", f"/v1/holds/{asked.json()['id']}").status_code == 204


@pytest.mark.parametrize("path", ["/v1/starts/", "/v1/holds/", "/v1/services/test/", "/nothing/"])
def test_a_path(up: Up, path: str) -> None:
    hostile = "%0A".join(["x", FORGED.replace(" ", "%20"), "%1b[2J", "%FF%FE", "%00", "%E2%80%AE"])
    method = "DELETE" if "holds" in path else "GET"
    answer = httpx.request(method, url(up) + path + hostile, headers={"Authorization": f"Bearer {token(up)}"})
    assert answer.status_code == 404
    assert answer.json()["error"]["message"].isprintable()
    assert tame(up.said())


def test_arguments_of_the_command_line(up: Up) -> None:
    for command in (
        ["starts", f"test/{HOSTILE}"],
        ["holds", "--release", HOSTILE],
        ["prewarm", HOSTILE, "--for", "1h"],
    ):
        shown = cli(up, *command)
        assert "Traceback" not in shown
        assert not set("\x1b\x07\x9b\u202e\u2028") & set(shown), command


def test_an_engines_last_words(up: Up) -> None:
    """What an engine prints before it ends becomes failure, event and answer."""
    answer = up.ask("broken")
    assert answer.status_code == 503
    assert answer.json()["error"]["message"].isprintable()
    assert all(text.isprintable() for text in up.events())
    assert tame(up.said())
    assert tame(cli(up, "status", "test/broken"))


def test_names_and_paths_in_files(up: Up) -> None:
    """A model's directory may be called anything; a service's name may not."""
    odd = "m\x1b[2J\u202e m"
    make_model(up.models / odd)
    known = (up.files / "chat.yaml").read_text()
    hostile = service("odd", cost="1s").replace('"pvc://models/odd"', f'"pvc://models/{ascii(odd)[1:-1]}"')
    path = Path(up.files / "odd.yaml")
    path.write_text(hostile + "\n---\n" + known.replace("name: chat", 'name: "a\\n12:00:00 forged"'))
    try:
        wait_for(lambda: "odd.yaml" in up.said(), within_s=20, saying="the file was read")
        assert tame(up.said())
        assert all(text.isprintable() for text in up.events())
        assert "12:00:00 forged" not in up.said().splitlines()
    finally:
        path.unlink()


def test_the_logs_of_our_processes(up: Up) -> None:
    hostile = httpx.post(f"http://{up.portal}/v1/completions", json={"model": HOSTILE, "prompt": HOSTILE}, timeout=10)
    assert hostile.status_code == 404
    assert hostile.json()["error"]["message"].isprintable()
    logs = list((up.state / "logs").iterdir())
    assert {path.name for path in logs} >= {"host.log", "portal.log"}
    assert [path.name for path in logs if not tame(path.read_text())] == []


def test_metrics_have_no_label_that_others_write(up: Up) -> None:
    httpx.post(f"http://{up.portal}/v1/completions", json={"model": HOSTILE, "prompt": "x"}, timeout=10)
    httpx.get(f"http://{up.portal}/{FORGED}", headers={"Host": "evil.example"}, timeout=10)
    text = up.api("GET", "/metrics").text
    assert FORGED not in text
    assert set(re.findall(r'service="([^"]*)"', text)) <= {"test/chat", "test/broken", "test/odd", "other"}
