"""Give up every floor on Knative and end: for uninstalling, and for who cleans up where no controller lives."""

import asyncio

from activator_ext.adapters.knative.actuator import Done, KnativeActuator, Report
from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.kubernetes.faults import ApiFault
from activator_ext.adapters.kubernetes.patience import WatchPatience

WITHIN_S = 120.0
AGAIN_S = 0.5


class NotCleared(ApiFault):
    """Something of ours is left, or may be; the message says where and why."""


async def clear(
    client: Client, *, namespace: str = "", within_s: float = WITHIN_S, patience: WatchPatience | None = None
) -> tuple[Done, ...]:
    """Put every min-scale that we hold back to what it was, until no entry of ours is left; what was done.

    Nothing where Knative is not installed. Raises NotCleared after `within_s`. No controller may lead meanwhile: it
    would raise them again.
    """
    knative = KnativeActuator(client, namespace=namespace, patience=patience)
    running = asyncio.create_task(knative.run())
    report = Report()
    done: list[Done] = []
    try:
        async with asyncio.timeout(within_s):
            while not all(watched.synced for watched in knative.watches):
                if any(watched.trouble is not None and watched.trouble.missing for watched in knative.watches):
                    return ()
                await asyncio.sleep(AGAIN_S / 10)
            while True:
                report = await knative.clear_all()
                done += report.done
                if not knative.held():
                    return tuple(done)
                await asyncio.sleep(AGAIN_S)
    except TimeoutError:
        left = [f"{scheme} {key}" for scheme, key in knative.held()]
        troubles = [watched.trouble.text for watched in knative.watches if watched.trouble is not None]
        what = f"held still: {', '.join(left)}" if left else "not all could be looked at"
        why = "; ".join([*report.faults, *troubles]) or "another controller may hold them"
        raise NotCleared(f"not cleared within {within_s:.0f} s, {what}: {why}") from None
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
