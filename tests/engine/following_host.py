"""One host, one start of real vLLM, in a process of its own: `python -m … ROOT FAR MODEL [STEP]`; see the fake one."""

import asyncio
import sys
from pathlib import Path

from runtime.engine.fork.pool import ForkPool
from runtime.engine.launch import Launcher
from tests.unit.runtime.cache.following_host import play, share_key
from tests.unit.runtime.cache.starting import Machine

ARGS = ("--max-model-len=512", "--max-num-seqs=8", "--dtype=bfloat16")


class Real(Machine):
    """Its engines are forks of one parent."""

    forks: ForkPool

    def launcher(self) -> Launcher:
        return Launcher(forks=self.forks, shelf=self.shelf)


async def main(root: Path, far: Path, model: Path, step: str) -> None:
    """One start, as a host does it."""
    share_key(root)
    host = Real(root, model=model, args=ARGS, publish_to=f"file://{far}")
    # Earlier starts of the service took this long, so that a slow machine's is waited for.
    host.shelf._experience.took("test/one", 75.0, compiled=True, whole_s=100.0)
    host.forks = ForkPool()
    host.launcher().want(host.spec)
    await play(host, far, step)
    await host.forks.close()
    await host.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), "".join(sys.argv[4:])))
