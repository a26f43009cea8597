"""Our Events on a real API server."""

import asyncio

from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.events import About, Events
from activator_ext.adapters.kubernetes.resource import INFERENCE_SERVICES, Key
from tests.cluster.control_plane import ControlPlane, inference_service
from tests.serving import wait_for


async def test_describe_shows_our_events_at_the_inference_service(plane: ControlPlane, namespace: str) -> None:
    plane.apply(inference_service(namespace, "chat"))
    uid = plane.get("-n", namespace, "inferenceservice", "chat")["metadata"]["uid"]
    about = About(INFERENCE_SERVICES, Key(namespace, "chat"), uid)
    async with await Client.connect(plane.kubeconfig) as client:
        events = Events(client)
        running = asyncio.create_task(events.run())
        events.tell(about, "FloorRaised", "floor 0 → 1: hold 7 until 10:00")
        events.tell(about, "FloorRaised", "floor 1 → 2: hold 8 until 10:00")
        events.tell(about, "StartFailed", "OOMKilled: 24 GiB were not enough", warning=True)

        def told() -> bool:
            said = plane.kubectl("-n", namespace, "describe", "inferenceservice", "chat")
            return "floor 1 → 2: hold 8 until 10:00" in said and "Warning  StartFailed" in said

        await asyncio.to_thread(wait_for, told, within_s=20, saying="describe does not show them")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert (events.lost, events.trouble) == (0, None)
