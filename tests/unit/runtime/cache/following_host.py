"""One host and one start, in a process of its own: `python -m … ROOT FAR MODEL [STEP]`; prints the start's record.

STEP: it kills itself (SIGKILL) while its engine compiles, after the golden prompt, while it publishes to FAR, or when
it has published and still holds its turn.
"""

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

from runtime.cache import turns
from runtime.cache.publisher import Terms
from runtime.cache.signing import SigningKey
from runtime.contract import Stage
from runtime.engine.start import utc_now
from tests.unit.runtime.cache.starting import Machine, until

STEPS = ("compiling", "answered", "publishing", "published")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_the_record(far: Path) -> None:
    """Once the bundle's bytes are there, before the record by which it counts."""

    def look(event: str, args: tuple[object, ...]) -> None:
        if event == "os.rename" and str(args[1]).startswith(str(far)) and str(args[1]).endswith(".json"):
            die()

    sys.addaudithook(look)


def share_key(root: Path) -> None:
    """All hosts beside one another sign with one key, and so trust one another."""
    shared, own = root.parent / "key.pem", root / ".shelf" / "signing-key.pem"
    SigningKey.load_or_make(shared)
    own.parent.mkdir(parents=True, mode=0o700)
    shutil.copy(shared, own)


async def main(root: Path, far: Path, model: Path, step: str) -> None:
    """One start of the fake engine."""
    share_key(root)
    turns.TERMS = Terms(ttl_s=1.5, skew_s=0.5)
    await play(Machine(root, model=model, publish_to=f"file://{far}"), far, step)


async def play(host: Machine, far: Path, step: str) -> None:
    """One start that nobody waits for."""
    host.awaited, host.start_timeout_s = False, 600
    start = host.new()
    run = asyncio.create_task(start.run())
    if step == "compiling":
        await until(lambda: start.stage is Stage.COMPILE, within_s=300)  # a real one imports first
        die()
    engine = await run
    if step == "answered":
        die()
    if step == "publishing":
        die_at_the_record(far)
    start.admit(utc_now())
    if step == "published":
        await until(lambda: any(far.glob("bundles/*/newest.json")))
        die()
    record = await start.published()
    await engine.stop(0)
    await start.close()
    print(record.model_dump_json())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), "".join(sys.argv[4:])))
