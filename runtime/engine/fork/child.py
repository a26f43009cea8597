"""What a fork of the fork server does to become an engine, and what EngineCore and Worker, forks of that, do first."""

import gc
import importlib.util
import multiprocessing
import os
import signal
import sys
import time
from multiprocessing import util
from multiprocessing.context import BaseContext

from runtime.engine.fork.wire import ForkRequest
from runtime.engine.leash import leash
from runtime.engine.marker import emit, role_of
from runtime.engine.obituary import tell_deaths

SERVE = "runtime.engine.serve"
"""What an engine's main module would be had it been started by itself; helper processes read it from its spec."""

ADOPTION_S = 5.0
"""How long the middle process may take to end, which makes the host this engine's parent; it takes a millisecond."""


def become(request: ForkRequest, output: int) -> None:
    """Take on the engine's environment, directory, output and parent, then run vLLM's command line; never returns."""
    _take_place(request, output)
    _await_parent(request.host_pid)
    leash(request.host_pid)
    gc.enable()
    sys.argv = ["vllm", *request.argv]
    main = sys.modules["__main__"]
    main.__spec__ = importlib.util.find_spec(SERVE)
    emit("main", "api")
    tell_deaths()
    fork_from_here()
    from vllm.entrypoints.cli.main import main as vllm_main  # noqa: PLC0415  (the server has imported it)

    try:
        vllm_main()
        code = 0
    except SystemExit as left:
        code = _exit_code(left)
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    util._exit_function()  # type: ignore[attr-defined]  # what the interpreter would run: ends and joins children
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def fork_from_here() -> None:
    """Have vLLM fork EngineCore and Worker, which inherit all imports, instead of spawning them."""
    from vllm.utils import system_utils  # noqa: PLC0415  (the server has imported it)

    stock = system_utils.get_mp_context

    def get_mp_context() -> BaseContext:
        if (why := spawn_needed()) is None:
            return multiprocessing.get_context("fork")
        print(f"processes are spawned, not forked: {why}", file=sys.stderr)
        return stock()  # type: ignore[no-any-return]  # vLLM has no types

    for module in tuple(sys.modules.values()):
        if vars(module).get("get_mp_context") is stock:
            module.get_mp_context = get_mp_context  # type: ignore[attr-defined]  # the patch itself
    util.register_after_fork(_CHILD, _Child.begin)


def spawn_needed() -> str | None:
    """Why the next process cannot be a fork of this one, None if it can."""
    import torch  # noqa: PLC0415  (the server has imported it)

    if torch.cuda.is_initialized():
        return "CUDA is initialized"
    return "NUMA binding is asked for" if "--numa-bind" in sys.argv else None


class _Child:
    """`begin` runs first in each process that multiprocessing forks, for as long as an instance lives."""

    def begin(self) -> None:
        """On the leash of its parent; what serve.py does on a spawn. Its imports are done already."""
        leash()
        role = role_of(multiprocessing.current_process().name, "__mp_main__")
        emit("main", role)
        emit("plugin", role)


_CHILD = _Child()
"""multiprocessing refers to it weakly."""


def _take_place(request: ForkRequest, output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, 1024)
    os.environ.clear()
    os.environ.update(request.env)
    time.tzset()
    os.chdir(request.cwd)
    os.umask(0o077)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _await_parent(host_pid: int) -> None:
    until = time.monotonic() + ADOPTION_S
    while os.getppid() != host_pid and time.monotonic() < until:
        time.sleep(0.001)


def _exit_code(left: SystemExit) -> int:
    if left.code is None or isinstance(left.code, int):
        return left.code or 0
    print(left.code, file=sys.stderr)
    return 1
