"""One request through Knative's activator, for a Revision whose floor its autoscaler does not heed.

After an autoscaler restarts, it ignores min-scale of a Revision at zero until a request comes. The request need not be
answered: it is counted while it waits.
"""

from types import TracebackType
from typing import Self

import aiohttp

from activator_ext.adapters.kubernetes.resource import Key

IN_CLUSTER = "activator-service.knative-serving.svc.cluster.local"
"""Where the activator is for who runs in a pod."""
WAIT_S = 1.5
"""The activator tells the autoscaler at once of a first request, and once a second after."""


class Nudger:
    """Sends nudges to the activator at `address` (HOST or HOST:PORT)."""

    def __init__(self, address: str = IN_CLUSTER) -> None:
        self.address = address
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=WAIT_S))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

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
            async with self._http.get(f"http://{self.address}/", headers=headers, allow_redirects=False) as answer:
                await answer.release()
        except TimeoutError as error:
            # It waits, and so it counts; but one that never reached the activator was not taken.
            return f"{self.address}: {error}" if isinstance(error, aiohttp.ConnectionTimeoutError) else None
        except (aiohttp.ClientError, OSError) as error:
            return f"{self.address}: {error or type(error).__name__}"
        return None
