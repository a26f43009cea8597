"""The portal as a process: its command line and its end."""

import argparse
import asyncio
import logging
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path

import uvloop

from activator_ext.portal.admin import AddressTaken
from activator_ext.portal.limits import Limits
from activator_ext.portal.server import Options, Portal

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def parse(argv: list[str] | None = None) -> Options:
    """The command line as options; ends the process with a message when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m activator_ext.portal",
        description="The door where a request waits until its engine can answer, and that then forwards it.",
    )
    parser.add_argument("--listen", default="127.0.0.1:8080", metavar="HOST:PORT", help="loopback only; port 0: any")
    parser.add_argument("--controller", type=Path, required=True, metavar="PATH", help="the controller's unix socket")
    parser.add_argument("--admin", type=Path, required=True, metavar="PATH", help="our own unix socket, mode 0600")
    parser.add_argument("--drain-s", type=float, default=60.0, help="how long running requests may go on after a stop")
    parser.add_argument("--orphan-s", type=float, default=60.0, help="how long to serve on without a controller")
    limits = Limits()
    for option, default, what in (
        ("--head-s", limits.head_s, "how long a request's head may take from its first byte"),
        ("--body-idle-s", limits.body_idle_s, "how long nothing more may come of a body that is being read"),
        ("--keep-alive-s", limits.keep_alive_s, "how long a connection may stay open without a request"),
    ):
        parser.add_argument(option, type=_seconds, default=default, help=f"{what} (default: %(default)g)")
    given = parser.parse_args(argv)
    host, _, port = given.listen.rpartition(":")
    host = host.strip("[]")
    if host not in _LOOPBACK or not port.isdigit() or int(port) > 65535:
        parser.error(f"--listen {given.listen}: write HOST:PORT, HOST one of {', '.join(_LOOPBACK)}")
    return Options(
        host=host,
        port=int(port),
        controller=given.controller,
        admin=given.admin,
        drain_s=given.drain_s,
        orphan_s=given.orphan_s,
        limits=replace(limits, head_s=given.head_s, body_idle_s=given.body_idle_s, keep_alive_s=given.keep_alive_s),
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: write a number of seconds above 0")
    return seconds


async def _serve(options: Options) -> None:
    portal = Portal(options)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        loop.add_signal_handler(number, portal.stop)
    await portal.run()


def main() -> int:
    """Serve until SIGTERM, SIGINT, SIGQUIT, `POST /stop` or the loss of the controller; the exit status is 0 then."""
    options = parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s portal %(levelname)s %(message)s", stream=sys.stderr)
    # Each request costs two descriptors, and the usual soft limit of 1024 is below what may wait.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        uvloop.run(_serve(options))
    except AddressTaken as taken:
        print(f"portal: {taken}", file=sys.stderr)
        return 1
    return 0
