"""Starts of a host on a small disk; run as `python -m …starting_full DIRECTORY`, which is a file system of 4 MiB.

Prints a line for each start: what it was, outcome, verdict, what was published, and the note or failure.
"""

import asyncio
import os
import sys
from pathlib import Path

from runtime.contract import StartRecord
from tests.fakes.model import make_model
from tests.unit.runtime.cache.starting import Machine

LARGE = 400_000


def fill(disk: Path, leave_bytes: int) -> Path:
    """A file that leaves so much of the disk."""
    free = os.statvfs(disk)
    filler = disk / "filler"
    filler.write_bytes(b"x" * max(0, free.f_bavail * free.f_frsize - leave_bytes))
    return filler


def tell(what: str, record: StartRecord) -> None:
    """One line for the test."""
    said = record.failure.message if record.failure else record.cache.note
    published = "published" if record.cache.published else "-"
    print(what, record.outcome, record.cache.verdict or "-", published, said.replace("\n", " "), sep=" | ")


async def main(disk: Path, elsewhere: Path) -> None:
    """A full disk before, between and after; then room again."""
    model = make_model(elsewhere / "model", compiles=True, artifact_bytes=LARGE)
    maker = Machine(elsewhere / "maker", model=model, publish_to=f"file://{elsewhere / 'far'}")
    tell("maker", await maker.start())

    twice = [f"file://{elsewhere / 'far'}", str(elsewhere / "far")]  # two stores that have it
    host = Machine(disk / "host", model=model, stores=twice, policy=maker.trust)
    filler = fill(disk, 100_000)
    tell("no room at all", await host.start())
    filler.unlink()
    filler = fill(disk, LARGE + 150_000)
    tell("room for the artifact only", await host.start())
    filler.unlink()
    tell("room again", await host.start())
    tell("another replica", await host.start("1"))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
