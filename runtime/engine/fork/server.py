"""`python -P -m runtime.engine.fork.server PLATFORM FD`: imports vLLM once; each engine is a fork of this process.

It never runs anything else: no threads of ours, no CUDA call, no model. An engine is forked twice, so that its parent
becomes the host (a subreaper), which watches and reaps it; this process may then end without any engine noticing.
"""

import gc
import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable

from runtime.engine.fork.preload import FIRST, modules
from runtime.engine.fork.probes import Probes
from runtime.engine.fork.wire import ForkAnswer, ForkRequest, Ready, receive, send
from runtime.engine.leash import leash


def main(names: tuple[str, ...], fd: int, *, probed: bool = False) -> None:
    """Import the modules `names`, say so over `fd`, then fork on request until the host closes its end.

    `probed`: ask the processor what torch will want to know of it.
    """
    leash()
    channel = socket.socket(fileno=fd)
    begun = time.monotonic()
    # Imports make objects and no garbage: looking for it takes a third of their time (7.2 s of CPU without, 4.9 with).
    gc.disable()
    warm_up(names[: len(FIRST)])
    probes = Probes() if probed else None
    warm_up(names[len(FIRST) :])
    if probes is not None:
        probes.join()
    send(channel, Ready(round(time.monotonic() - begun, 3), len(sys.modules), unsafe()))
    # What lives now is never looked at again, so that no child copies these pages only to mark them.
    gc.freeze()
    while (received := receive(channel)) is not None:
        told, output = received
        request = ForkRequest(**told)
        answer = _forked(channel, request, output)
        if output is not None:
            os.close(output)
        send(channel, answer)


def warm_up(names: tuple[str, ...]) -> None:
    """Import what engines import. A module that this build lacks is left to the engine, which says so itself."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"fork server: {name} cannot be imported: {error}", file=sys.stderr)


def unsafe() -> str | None:
    """Why a fork of this process could not work, None if nothing speaks against it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return "torch could not be imported"
    return "CUDA is initialized already" if torch.cuda.is_initialized() else None


def _forked(channel: socket.socket, request: ForkRequest, output: int | None) -> ForkAnswer:
    if output is None:
        return ForkAnswer(error="the request came without a pipe for the engine's output")
    read_end, write_end = os.pipe()
    try:
        middle = _fork(lambda: _middle(channel, request, output, write_end))
    except OSError as error:
        os.close(read_end)
        return ForkAnswer(error=f"cannot fork: {error.strerror}")
    finally:
        os.close(write_end)
    with os.fdopen(read_end, "rb") as told:
        text = told.read().decode()
    os.waitpid(middle, 0)
    return ForkAnswer(pid=int(text)) if text.isdigit() else ForkAnswer(error=text or "the fork ended at once")


def _fork(body: Callable[[], None]) -> int:
    """The child's pid. In the child, `body` runs and nothing after it."""
    pid = os.fork()
    if pid:
        return pid
    try:
        body()
    except BaseException:  # whatever it is, the copy of the server must not go on as a second server
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(1)


def _middle(channel: socket.socket, request: ForkRequest, output: int, told: int) -> None:
    """Between server and engine: its end makes the engine a child of the host."""
    try:
        engine = _fork(lambda: _engine(channel, request, output, told))
        os.write(told, str(engine).encode())
    except OSError as error:
        os.write(told, f"cannot fork: {error.strerror}".encode())
    os._exit(0)


def _engine(channel: socket.socket, request: ForkRequest, output: int, told: int) -> None:
    """In the engine: become what `exec` would have made, then run vLLM's command line."""
    os.setsid()
    os.close(told)
    channel.close()
    from runtime.engine.fork.child import become  # noqa: PLC0415  (loaded by the preload list; named where it is used)

    signal.set_wakeup_fd(-1)
    become(request, output)


if __name__ == "__main__":
    main(modules(sys.argv[1]), int(sys.argv[2]), probed=sys.argv[1] == "cpu")
