"""Run as a process of its own: lists Revisions of KUBECONFIG's server, prints count, bytes held by them, and peak."""

import asyncio
import contextlib
import gc
import os
import resource

import psutil

from activator_ext.adapters.knative.objects import scaled
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.resource import REVISIONS
from activator_ext.adapters.kubernetes.watched import Watched


async def main() -> None:
    process = psutil.Process(os.getpid())
    async with await Client.connect() as client:
        with contextlib.suppress(Exception):
            await client.get("/api/v1/warm-up", {"limit": "1"})
        gc.collect()
        before = process.memory_info().rss
        watched = Watched(client, REVISIONS, scaled)
        task = asyncio.create_task(watched.run())
        await watched.wait_synced()
        gc.collect()
        held = process.memory_info().rss - before
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
        print(len(watched.objects), held, peak, before)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
