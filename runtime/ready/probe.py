"""Does the engine answer, and does it serve this model? `/health`, then `/v1/models`.

A 200 on `/health` is no proof that the engine can answer (on a CPU with AMX it says 200 and dies at the first
request); the golden prompt comes after.
"""

import asyncio
from collections.abc import Mapping

import httpx

from runtime.contract import FailureCause
from runtime.ready.fault import Fault
from runtime.ready.http import client

BEFORE_SERVER_S = 1.0
"""How often `/health` is tried while the engine's log does not yet say that its server is up."""
AFTER_SERVER_S = 0.02
"""How often it is tried after that line; the port answers within a few ms of it."""
TRY_TIMEOUT_S = 5.0
"""The longest wait for one answer of `/health` or `/v1/models`."""


async def wait_until_serving(
    url: str, served_name: str, server_up: asyncio.Event, headers: Mapping[str, str] | None = None
) -> None:
    """Return once `/health` is 200 and `/v1/models` names `served_name`; waits without an end of its own.

    `server_up` set means that the engine's log announced its server; `headers` let the host through the engine's gate.
    Raises Fault (NOT_SERVED).
    """
    async with client(url, TRY_TIMEOUT_S, headers) as http:
        while (names := await _served(http)) is None:
            await _pause(server_up)
    if served_name not in names:
        raise Fault(
            FailureCause.NOT_SERVED,
            f"the engine answers at {url} but does not serve {served_name} (it serves {', '.join(names) or 'nothing'}):"
            " look for --served-model-name in the service's arguments",
            {"served": ", ".join(names)},
            permanent=True,
        )


async def _served(http: httpx.AsyncClient) -> list[str] | None:
    """The names that the engine serves; None while it does not answer."""
    try:
        if (await http.get("/health")).status_code != 200:
            return None
        return _names(await http.get("/v1/models"))
    except httpx.RequestError:
        return None


async def _pause(server_up: asyncio.Event) -> None:
    if server_up.is_set():
        await asyncio.sleep(AFTER_SERVER_S)
        return
    try:
        async with asyncio.timeout(BEFORE_SERVER_S):
            await server_up.wait()
    except TimeoutError:
        return


def _names(response: httpx.Response) -> list[str]:
    try:
        return [str(entry["id"]) for entry in response.json()["data"]]
    except (ValueError, KeyError, TypeError):
        return []
