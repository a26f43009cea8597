"""What the processes of an `up` listen on, and who may connect: looked up in the kernel, not asked of them."""

import socket
import stat
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import psutil

from tests.serving import Up


def tcp_listeners(up: Up) -> set[tuple[str, str, int]]:
    """(program, address, port) of each TCP port that a process of this `up` listens on; UDP sockets count too."""
    found = set()
    for process in up.processes():
        for connection in process.net_connections(kind="inet"):
            if connection.status == psutil.CONN_LISTEN or connection.type == socket.SOCK_DGRAM:
                found.add((process.name(), connection.laddr.ip, connection.laddr.port))
    return found


def beyond_loopback(up: Up) -> set[tuple[str, str, int]]:
    """Those of them that another machine could reach."""
    return {listener for listener in tcp_listeners(up) if not ip_address(listener[1]).is_loopback}


def unix_sockets(up: Up) -> Iterator[Path]:
    """The path of each unix socket that a process of this `up` has bound; relative ones from where it works."""
    for process in up.processes():
        for connection in process.net_connections(kind="unix"):
            if bound := str(connection.laddr):
                assert not bound.startswith("@"), f"{bound}: anybody may connect to an abstract one"
                yield Path(process.cwd()) / bound


def open_to_others(path: Path, private: Path) -> bool:
    """Whether another user could connect: unless the socket is in the private directory, of mode 0700, or is 0600."""
    kept = private.stat().st_mode & 0o077 == 0 and path.is_relative_to(private)
    return not kept and path.exists() and bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
