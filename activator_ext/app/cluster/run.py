"""`pilotlight controller`: one controller's tasks, from connecting to the last write."""

import asyncio
import contextlib
import signal
import socket
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from activator_ext.adapters.history import History, HistoryError
from activator_ext.adapters.keda_scaler.floors import Floors
from activator_ext.adapters.keda_scaler.server import CannotListen, ScalerServer
from activator_ext.adapters.keda_scaler.tls import BadFiles, TlsFiles
from activator_ext.adapters.knative.actuator import KnativeActuator
from activator_ext.adapters.knative.nudge import IN_CLUSTER, Nudger
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.events import Events
from activator_ext.adapters.kubernetes.faults import ApiFault, NoCluster
from activator_ext.adapters.kubernetes.lease import Leader
from activator_ext.adapters.kubernetes.resource import Key
from activator_ext.adapters.standard.manifest import Authentication, Settings, takes_tolerance
from activator_ext.app.cluster.learned import Learned
from activator_ext.app.cluster.loop import ClusterController
from activator_ext.app.cluster.sight import Sight
from activator_ext.app.cluster.standard import StandardMode
from activator_ext.app.streams import tell
from activator_ext.core.visible import visible


class CannotRun(Exception):
    """The controller cannot run as told; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Options:
    """`namespace` "": all. `keda_listen` None: no scaler. `scaler_address`: the scaler as KEDA reaches it.

    Without that address no ScaledObject is made; who makes them by hand still gets floors. `scaler_authentication`:
    what they name for TLS. `lease`: which of several controllers acts; None: this one, and there must be no other.
    """

    kubeconfig: Path | None = None
    namespace: str = ""
    history: Path = Path("history.sqlite3")
    activator: str = IN_CLUSTER
    keda_listen: str | None = None
    tls: TlsFiles | None = None
    plain: bool = False
    scaler_address: str | None = None
    scaler_authentication: Authentication | None = None
    lease: Key | None = None


def run(options: Options) -> None:
    """Control the cluster until SIGTERM or Ctrl-C. Raises CannotRun."""
    try:
        asyncio.run(_run(options))
    except (NoCluster, CannotListen, BadFiles, HistoryError) as error:
        raise CannotRun(str(error)) from error


async def _run(options: Options) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(await Client.connect(options.kubeconfig))
        history = History(options.history, _now)
        stack.callback(history.close)
        nudger = await stack.enter_async_context(Nudger(options.activator))
        floors = Floors(_now)
        if options.keda_listen is not None:
            server = ScalerServer(floors, options.keda_listen, tls=options.tls, plain=options.plain, report=_report)
            await stack.enter_async_context(server)
            _report(f"serving floors to KEDA on port {server.port}")
        work = asyncio.create_task(_work(options, client, history, nudger, floors))
        await asyncio.wait([work, asyncio.create_task(ended.wait())], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def _scaling(client: Client, options: Options) -> Settings | None:
    """How ScaledObjects are made, None where none are."""
    if options.scaler_address is None:
        return None
    try:
        exact = takes_tolerance(await client.get("/version"))
    except ApiFault:
        exact = False  # as every API server takes them; decided anew when the controller begins again
    return Settings(options.scaler_address, options.scaler_authentication, exact_hpa=exact)


async def _work(options: Options, client: Client, history: History, nudger: Nudger, floors: Floors) -> None:
    woken: list[ClusterController] = []

    def changed() -> None:
        for each in woken:
            each.wake()

    leader = None
    if options.lease is not None:
        leader = Leader(client, options.lease, f"{socket.gethostname()}_{uuid.uuid4()}", changed=changed, clock=_now)

    def leading() -> bool:
        return leader is None or leader.leading

    events = Events(client, clock=_now)
    sight = Sight(client, namespace=options.namespace, changed=changed, clock=_now)
    knative = KnativeActuator(client, nudger, namespace=options.namespace, leading=leading, changed=changed, clock=_now)
    settings = await _scaling(client, options)
    standard = StandardMode(
        client, floors, settings, serves=options.keda_listen is not None, leading=leading, clock=_now
    )
    controller = ClusterController(
        client=client,
        sight=sight,
        knative=knative,
        standard=standard,
        learned=Learned(history),
        events=events,
        clock=_now,
        report=_report,
        leading=leading,
    )
    woken.append(controller)
    _report(f"controlling {options.namespace or 'all namespaces'} at {client.server}")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(sight.run())
        tasks.create_task(knative.run())
        tasks.create_task(events.run())
        tasks.create_task(controller.run())
        if leader is not None:
            tasks.create_task(leader.run())


def _now() -> datetime:
    return datetime.now(UTC)


def _report(text: str) -> None:
    tell(f"{_now():%H:%M:%S.%f}"[:-3] + f" {visible(text)}")
