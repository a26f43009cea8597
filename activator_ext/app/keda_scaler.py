"""`pilotlight keda-scaler`: the scaler alone, its floors from a file or from a controller's API."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from activator_ext.adapters.keda_scaler.floors import Floors
from activator_ext.adapters.keda_scaler.floors_api import BadController, ControllerFloors
from activator_ext.adapters.keda_scaler.floors_file import BadFloors, FloorsFile
from activator_ext.adapters.keda_scaler.server import CannotListen, ScalerServer
from activator_ext.adapters.keda_scaler.tls import BadFiles, TlsFiles
from activator_ext.app.streams import tell
from activator_ext.core.visible import visible


class CannotRun(Exception):
    """The scaler cannot run as told; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """Where a controller is, and how it is asked."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None


def run(listen: str, source: Path | ControllerOptions, *, tls: TlsFiles | None, plain: bool) -> None:
    """Serve until SIGTERM or Ctrl-C. `source`: a file of floors, or a controller. Raises CannotRun."""
    try:
        asyncio.run(_serve(listen, source, tls=tls, plain=plain))
    except (BadFloors, BadController, CannotListen, BadFiles) as error:
        raise CannotRun(str(error)) from error


async def _serve(listen: str, source: Path | ControllerOptions, *, tls: TlsFiles | None, plain: bool) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    floors = Floors(_now)
    server = ScalerServer(floors, listen, tls=tls, plain=plain, report=_report)
    async with _followed(source, floors) as following, server:
        _report(f"serving floors to KEDA on port {server.port}{'' if tls else ', without TLS'}")
        await asyncio.wait([following, asyncio.create_task(ended.wait())], return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            following.result()


@contextlib.asynccontextmanager
async def _followed(source: Path | ControllerOptions, floors: Floors) -> AsyncIterator["asyncio.Task[None]"]:
    """The source read once, and a task that reads it on; the first reading comes before anything listens."""
    async with contextlib.AsyncExitStack() as stack:
        if isinstance(source, Path):
            file = FloorsFile(source, floors, _report)
            file.read()
            task = asyncio.create_task(file.follow())
        else:
            api = await stack.enter_async_context(
                ControllerFloors(source.url, floors, _report, token_file=source.token_file, ca_file=source.ca_file)
            )
            await api.ask()
            task = asyncio.create_task(api.follow())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])


def _now() -> datetime:
    return datetime.now(UTC)


def _report(text: str) -> None:
    tell(visible(text))
