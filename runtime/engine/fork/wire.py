"""What a fork server and its host say to one another, over a SOCK_SEQPACKET pair: one JSON object a message.

A request carries one file descriptor, the pipe that the engine's output goes to. Imports the standard library only.
"""

import array
import json
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

MAX_MESSAGE_BYTES = 256 * 1024
"""An environment and an argv have some 10 kB; the kernel takes about 200 kB in one message."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The first message: imports are done. `unsafe` says why this process must not be forked, None if it may."""

    imports_s: float
    modules: int
    unsafe: str | None = None


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """One engine wanted: its whole argv after the interpreter's part, its whole environment, its directory."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    host_pid: int


@dataclass(frozen=True, slots=True)
class ForkAnswer:
    """The engine's pid, or why there is none."""

    pid: int | None = None
    error: str | None = None


def send(channel: socket.socket, message: Ready | ForkRequest | ForkAnswer, fd: int | None = None) -> None:
    """Send one message, and `fd` with it. Raises OSError."""
    fds = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
    channel.sendmsg([json.dumps(asdict(message)).encode()], fds)


def receive(channel: socket.socket) -> tuple[dict[str, Any], int | None] | None:
    """The next message as a plain object, and the descriptor that came with it; None at the other side's end.

    Raises OSError, and ValueError for what is no message.
    """
    data, ancillary, flags, _ = channel.recvmsg(MAX_MESSAGE_BYTES, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    fd = None
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fd = array.array("i", payload[:4])[0]
    if not data:
        return None
    if flags & socket.MSG_TRUNC:
        raise ValueError("a message is longer than the channel takes")
    told = json.loads(data)
    if not isinstance(told, dict):
        raise ValueError("a message is not an object")
    return told, fd
