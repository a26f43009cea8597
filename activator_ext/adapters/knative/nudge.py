"""One request through Knative's activator, for a Revision whose floor its autoscaler does not heed.

After an autoscaler restarts, it ignores min-scale of a Revision at zero until a request comes. The request need not be
answered: it is counted while it waits.
"""

import asyncio
from types import TracebackType
from typing import Self

import aiohttp

from activator_ext.adapters.kubernetes.resource import Key

IN_CLUSTER = "activator-service.knative-serving.svc.cluster.local"
"""Where the activator is for who runs in a pod."""
WAIT_S = 1.5
"""The activator tells the autoscaler at once of a first request, and once a second after."""
# Requests under way at most; those beyond wait for the next time that they are due.
MOST = 32


class Nudger:
    """Sends nudges to the activator at `address` (HOST or HOST:PORT), each in the background."""

    def __init__(self, address: str = IN_CLUSTER, *, wait_s: float = WAIT_S) -> None:
        self.address = address
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=wait_s))
        self._under_way: dict[Key, asyncio.Task[str | None]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._under_way.values():
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        await self._http.close()

    def start(self, revision: Key) -> None:
        """Nudge this Revision, and do not wait for it."""
        if revision not in self._under_way and len(self._under_way) < MOST:
            self._under_way[revision] = asyncio.create_task(self.nudge(revision))

    def failed(self) -> dict[Key, str]:
        """What stood in the way of nudges that have ended since the last call."""
        ended = {key: task for key, task in self._under_way.items() if task.done()}
        for key in ended:
            del self._under_way[key]
        return {key: why for key, task in ended.items() if (why := task.result()) is not None}

    async def nudge(self, revision: Key) -> str | None:
        """One GET for this Revision. None where the activator took it, else what stood in the way.

        Not as a kube-probe and without Knative's probe headers: those are not counted.
        """
        headers = {
            "Knative-Serving-Namespace": revision.namespace,
            "Knative-Serving-Revision": revision.name,
            "User-Agent": "pilotlight-nudge",
        }
        try:
            async with self._http.get(f"http://{self.address}/", headers=headers, allow_redirects=False):
                return None
        except aiohttp.ConnectionTimeoutError as error:
            return f"{self.address}: {error}"
        except TimeoutError:
            return None  # it waits, and so it counts
        except (aiohttp.ClientError, OSError) as error:
            return f"{self.address}: {error or type(error).__name__}"
