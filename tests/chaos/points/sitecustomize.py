"""Points at which a process of an `up` under test stands still until told, so that it can be killed exactly there.

Python imports this module at its start where PYTHONPATH names this directory. `$PILOTLIGHT_POINTS/NAME` shut: the next
process that comes to the point NAME writes its pid to `NAME.at` and goes on when the file NAME is gone. Nothing in the
product knows of it. The points, and who comes to them:

    T0            controller: it has decided on a start and has told nobody yet
    T1 … T9       host: the mark is reached and noted, and nothing that follows it has been done
    begin         controller: a transaction of the history has written and not committed
    commit        controller: a transaction is committed, and who asked has no answer yet
"""

import importlib
import os
import sys
import time
from functools import wraps
from pathlib import Path
from typing import Any

POINTS = Path(os.environ.get("PILOTLIGHT_POINTS", "/nowhere"))


def stand(point: str) -> None:
    """Stand still at the point while it is shut."""
    gate = POINTS / point
    if not gate.exists():
        return
    (POINTS / f"{point}.at").write_text(str(os.getpid()))
    while gate.exists():
        time.sleep(0.002)


def in_host() -> None:
    """The host notes each mark by one method."""
    tracker = importlib.import_module("runtime.engine.stages").StageTracker
    reach = tracker.reach

    @wraps(reach)
    def reached(self: Any, mark: Any, at: Any) -> None:
        fresh = mark not in self.marks
        reach(self, mark, at)
        if fresh and mark != "T0":
            stand(mark)

    tracker.reach = reached


def in_controller() -> None:
    """The controller's orders, and the transactions of its history."""
    client = importlib.import_module("activator_ext.adapters.hosts").HostClient
    store: Any = importlib.import_module("activator_ext.adapters.history.store")
    order = client.order

    @wraps(order)
    async def ordered(self: Any, asked: Any) -> None:
        if asked.replicas:
            stand("T0")
        await order(self, asked)

    client.order = ordered
    opened = store.open_history

    def watched(*given: Any) -> Any:
        connection, notice = opened(*given)
        return _Watched(connection), notice

    store.open_history = watched


class _Watched:
    """A connection that stands still before and after each COMMIT."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *values: Any) -> Any:
        if statement != "COMMIT":
            return self._connection.execute(statement, *values)
        stand("begin")
        done = self._connection.execute(statement, *values)
        stand("commit")
        return done


if "PILOTLIGHT_POINTS" in os.environ:
    if "runtime.host" in sys.orig_argv:
        in_host()
    elif "activator_ext.app.cli" in sys.orig_argv:
        in_controller()
        if os.environ.get("PILOTLIGHT_CHILDREN_S_CLOCK") == "own":
            # The library is loaded here already; what is begun from here goes without.
            os.environ.pop("LD_PRELOAD", None)
