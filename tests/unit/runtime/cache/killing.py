"""Kill a process at each of its steps in turn; run as `python -m …killing pack|restore|replace|key DIRECTORY`.

A step is a call by which the file system may change or be looked at: every audit event of Python's, every write and
sync. The child kills itself before its k-th; what it left is looked at, swept, and looked at again; then k + 1, until
a child gets to its end. Prints the number of steps. A process of its own, because forking one with threads is unsafe.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from runtime.cache import quarantine
from runtime.cache.bundle import Packed, pack
from runtime.cache.restore import restore, verify
from runtime.cache.signing import SigningKey
from runtime.cache.staging import sweep
from tests.unit.runtime.cache.trees import (
    FEW,
    FINGERPRINT,
    PROVENANCE,
    a_bundle,
    a_key,
    left_behind,
    make_tree,
    read_tree,
    trust,
)

KEY = FINGERPRINT.key


@contextmanager
def deadly(step: int) -> Iterator[None]:
    """Kill this process before its `step`-th step."""
    seen = 0

    def advance() -> None:
        nonlocal seen
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(call: Callable[..., object]) -> Callable[..., object]:
        def stepping(*args: object) -> object:
            advance()
            return call(*args)

        return stepping

    def sync(_fd: int) -> None:
        """Only the step: a killed process leaves its writes to the system, synced or not."""
        advance()

    sys.addaudithook(lambda _event, _args: advance())
    os.write, os.fsync = before(os.write), sync  # type: ignore[assignment]  # of this process, which is about to end
    yield


def kill_at_each_step(work: Callable[[], object], check: Callable[[], None], directory: Path) -> int:
    """The number of steps that `work` has; `check` raises where one left what it must not."""
    for step in count(1):
        child = os.fork()
        if not child:
            with deadly(step):
                work()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        check()
        sweep(directory)
        if left := left_behind(directory):
            raise AssertionError(f"step {step}: {left} stayed")
        if os.waitstatus_to_exitcode(status) == 0:
            return step
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise AssertionError(f"step {step}: ended by {status}")
    raise AssertionError("unreachable")


def _pack(directory: Path) -> int:
    tree, target = make_tree(directory / "made", FEW), directory / "b.bundle"

    def work() -> Packed:
        return pack(tree, target, fingerprint=FINGERPRINT, provenance=PROVENANCE, signer=a_key())

    def check() -> None:
        if target.exists():
            verify(target, trust=trust(), expected_key=KEY)
            target.unlink()

    return kill_at_each_step(work, check, directory)


def _restore(directory: Path, *, replace: bool) -> int:
    bundle, into = a_bundle(directory, files=FEW).path, directory / "into"
    old = {"modelinfos/old": b"old"}
    trees = [FEW, old] if replace else [FEW]
    if replace:
        (into / "modelinfos").mkdir(parents=True)
        (into / "modelinfos/old").write_bytes(b"old")

    def work() -> None:
        restore(bundle, into, trust=trust(), expected_key=KEY, replace=replace)

    def check() -> None:
        if (replace or into.exists()) and read_tree(into) not in trees:
            raise AssertionError("a torn tree")
        if not replace and into.exists():
            shutil.rmtree(into)

    return kill_at_each_step(work, check, directory)


def _key(directory: Path) -> int:
    file = directory / "host.pem"

    def check() -> None:
        if file.exists():
            SigningKey.load(file)
            file.unlink()

    return kill_at_each_step(lambda: SigningKey.load_or_make(file), check, directory)


def _quarantine(directory: Path) -> int:
    file = directory / "quarantine.json"
    held = quarantine.Quarantine(file)
    held.add("a" * 64, "crashed", PROVENANCE.made_at)

    def check() -> None:
        now = quarantine.Quarantine(file)
        if now.damage or not now.holds("a" * 64, PROVENANCE.made_at):
            raise AssertionError("lost what it held")

    return kill_at_each_step(lambda: held.add("b" * 64, "crashed", PROVENANCE.made_at), check, directory)


def main() -> None:
    """Run one of the walks."""
    walks: dict[str, Callable[[Path], int]] = {
        "pack": _pack,
        "restore": lambda directory: _restore(directory, replace=False),
        "replace": lambda directory: _restore(directory, replace=True),
        "key": _key,
        "quarantine": _quarantine,
    }
    print(walks[sys.argv[1]](Path(sys.argv[2])))


if __name__ == "__main__":
    main()
