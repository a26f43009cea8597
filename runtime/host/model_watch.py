"""Sees when somebody mends the files of a model that cannot start."""

import asyncio
import contextlib
from collections.abc import Callable

from runtime.ready.stamp import model_stamp

LOOK_S = 2.0
"""How often the files of a model that cannot start are looked at (their names, sizes and times)."""


class ModelWatch:
    """One look-out for each service that waits for its model to change."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, service: str, model: str, stamp: str | None, on_change: Callable[[], None]) -> None:
        """Call `on_change` once when the files no longer stand as in `stamp`; replaces an earlier look-out."""
        self.end(service)
        look = _look(model, stamp, on_change)
        self._tasks[service] = asyncio.create_task(look, name=f"model of {service}")

    def end(self, service: str) -> None:
        """Look no more; there need not have been one."""
        task = self._tasks.pop(service, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def close(self) -> None:
        """End every look-out."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


async def _look(model: str, stamp: str | None, on_change: Callable[[], None]) -> None:
    while await asyncio.to_thread(model_stamp, model) == stamp:  # noqa: ASYNC110  (files tell nobody)
        await asyncio.sleep(LOOK_S)
    on_change()
