"""The clients that are programs: curl in its ways, and node with its two."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.http.clients.ways import Client, Heard, Question, heard

SCRIPT = Path(__file__).with_name("ask.mjs")


@dataclass(frozen=True)
class Curl:
    """`curl` with some arguments."""

    name: str
    arguments: tuple[str, ...] = ()
    retries: bool = True

    def ask(self, question: Question) -> Heard:
        """See `ways.Client`."""
        data = () if "-T" in self.arguments else ("--data-binary", "@-")
        argv = [
            "curl", "--disable", "--noproxy", "*", "-sS", "-N", "-X", "POST", *self.arguments, *data,
            "-H", "Content-Type: application/json", "--max-time", str(question.patience_s),
            *(("--retry", str(question.retries), "--fail") if question.retries else ()),
            "-w", "\n%{http_code}", question.url,
        ]  # fmt: skip
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as curl:
            assert curl.stdin
            assert curl.stdout
            curl.stdin.write(question.body())
            curl.stdin.close()
            if question.leave:
                said = heard(200, question, curl.stdout)
                curl.terminate()
                return said
            assert curl.stderr
            *lines, status = curl.stdout.read().split(b"\n")
            told = curl.stderr.read().decode()
        if curl.returncode:
            final = int(status or 0)
            return Heard(final if final >= 200 else 0, told, f"exit {curl.returncode}")
        whole = next((line for line in reversed(lines) if line.strip()), b"")
        return heard(int(status), question, lines, whole)


@dataclass(frozen=True)
class Node:
    """node with `fetch` (undici) or its `http` module."""

    name: str
    way: str
    retries: bool = False

    def ask(self, question: Question) -> Heard:
        """See `ways.Client`."""
        asked = {
            "way": self.way,
            "url": question.url,
            "body": question.body().decode(),
            "patience_ms": round(1000 * question.patience_s),
            "leave": question.leave,
        }
        ended = subprocess.run(
            ["node", str(SCRIPT)], input=json.dumps(asked), capture_output=True, text=True, check=True, timeout=60
        )
        said = json.loads(ended.stdout)
        if said["error"]:
            return Heard(said["status"], said["body"], said["error"])
        return heard(said["status"], question, said["body"].split("\n"), said["body"])


PROGRAMS: tuple[Client, ...] = (
    Curl("curl"),
    Curl("curl --http1.0", ("--http1.0",)),
    Curl("curl --http2", ("--http2",)),
    Curl("curl -T -, chunked", ("-T", "-"), retries=False),  # stdin cannot be read a second time
    Curl("curl --compressed", ("--compressed",)),
    Node("node, fetch", "fetch"),
    Node("node, http", "http"),
)


def missing(client: Client) -> str | None:
    """What must be installed for this client, None if nothing."""
    program = client.name.partition(" ")[0].rstrip(",")
    if client not in PROGRAMS or shutil.which(program):
        return None
    return f"{program} is not installed: apt-get install {'nodejs' if program == 'node' else program}"
