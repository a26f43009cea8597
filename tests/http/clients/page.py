"""Writes docs/reference/clients.md from what the clients do:  python -m tests.http.clients.page."""

import re
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.http.clients.cases import CASES, SLOW
from tests.http.clients.programs import PROGRAMS
from tests.http.clients.python import PYTHON
from tests.http.clients.ways import Client
from tests.http.house import House, house

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "clients.md"
CLIENTS: tuple[Client, ...] = (*PYTHON, *PROGRAMS)
Rows = Mapping[str, Mapping[str, str]]

_TEXT = """\
# Clients

*Written by `python -m tests.http.clients.page` from what each client did; a test asks them all again.*

Each client in its own words at a portal, without any setting but an address. The columns:

{columns}

{table}

What holds for all of them: an answer over HTTP/1.1 that breaks off is an error and never looks like an end; a client
that leaves, by its own timeout or otherwise, frees its place in the waiting room or its engine at once; a refusal is
JSON with `message`, `type` and `code`, as OpenAI's is. A client that shuts down only its sending side has left, as
nginx and Go's server see it too: none of these does so while it listens. HTTP/1.0 without a length has no sign for an
answer that breaks off: do not stream over it. Python's `http.client`, under `urllib`, takes
a broken answer for a whole one when it is read by lines: use `read` or `read1`.
"""


def row(at: House, client: Client, *, cases: frozenset[str]) -> dict[str, str]:
    """What one client made of these cases."""
    return {name: case(at, client) for name, case in CASES.items() if name in cases}


def slow_rows(at: House, clients: tuple[Client, ...]) -> dict[str, dict[str, str]]:
    """The cases that take seconds of waiting, for all clients at once."""
    with ThreadPoolExecutor(2 * len(clients)) as threads:
        asked = {
            (client.name, case): threads.submit(row, at, client, cases=frozenset({case}))
            for client in clients
            for case in sorted(SLOW)
        }
        rows: dict[str, dict[str, str]] = {client.name: {} for client in clients}
        for (name, _), done in asked.items():
            rows[name] |= done.result()
    return rows


def render(rows: Rows) -> str:
    """The page."""
    lines = [["client", *CASES], ["---"] * (1 + len(CASES))]
    lines += [[name, *(cells[case] for case in CASES)] for name, cells in rows.items()]
    return _TEXT.format(
        columns="\n".join(f"- *{name}*: {_first_line(case)}" for name, case in CASES.items()),
        table="\n".join(f"| {' | '.join(line)} |" for line in lines),
    )


def written() -> dict[str, dict[str, str]]:
    """The rows that the page has now."""
    lines = [re.split(r" \| ", line[2:-2]) for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {name: dict(zip(lines[0][1:], cells, strict=True)) for name, *cells in lines[2:]}


def _first_line(case: object) -> str:
    text = str(case.__doc__).removesuffix(".")
    return text[0].lower() + text[1:]


def main() -> int:
    """Ask every client, and write."""
    with tempfile.TemporaryDirectory() as folder, house(Path(folder)) as at:
        slow = slow_rows(at, CLIENTS)
        quick = frozenset(CASES) - SLOW
        PAGE.write_text(render({each.name: row(at, each, cases=quick) | slow[each.name] for each in CLIENTS}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
