"""A disk that is full while a bundle is written or unpacked: nothing is left, and the cause is told."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.cache import restore as restoring
from runtime.cache.bundle import pack
from runtime.cache.faults import BundleCause, BundleFault
from runtime.cache.restore import restore
from tests.unit.runtime.cache.trees import FINGERPRINT, PROVENANCE, a_key, make_tree, trust

ROOT = Path(__file__).parents[4]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle of 3 MB that do not compress, made of `made` beside it."""
    tree = make_tree(tmp_path / "made")
    (tree / "tilelang/large").write_bytes(random.Random(1).randbytes(3_000_000))
    return pack(tree, tmp_path / "a.bundle", fingerprint=FINGERPRINT, provenance=PROVENANCE, signer=a_key()).path


def _filling(bundle: Path, small: Path, *limit: str) -> list[str]:
    return [
        *(sys.executable, "-m", "tests.unit.runtime.cache.filling"),
        *(str(bundle.parent / "made"), str(bundle), str(small), *limit),
    ]


@pytest.mark.parametrize("limit", [100, 1_000_000, 2_999_999])
def test_a_file_that_may_not_grow(tmp_path: Path, bundle: Path, limit: int) -> None:
    small = tmp_path / "small"
    small.mkdir()
    done = subprocess.run(_filling(bundle, small, str(limit)), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    causes = [line.split()[0] for line in done.stdout.splitlines()]
    assert causes == ["no-space", "no-space"]


def test_a_disk_of_one_mebibyte(tmp_path: Path, bundle: Path) -> None:
    """A real small file system, seen by one process only, so that it ends with it."""
    small = tmp_path / "small"
    small.mkdir()
    unshare = shutil.which("unshare")
    mount = f"mount -t tmpfs -o size=1m tmpfs '{small}' && "
    if unshare is None or subprocess.run([unshare, "-m", "sh", "-c", mount + "true"], check=False).returncode:
        pytest.skip("mounting needs root and `unshare` (Debian: util-linux)")
    command = mount + 'exec "$@"'
    done = subprocess.run(
        [unshare, "-m", "sh", "-c", command, "sh", *_filling(bundle, small)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["no-space", "no-space"]
    assert "free, the bundle needs" in done.stdout


def test_a_disk_that_fills_up_after_it_was_looked_at(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write to it too, so having looked is no promise."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    write_all = restoring._write_all

    def fill(fd: int, data: bytes) -> None:
        if len(data) > 100_000:
            with full.open("wb", buffering=0) as file:
                file.write(data)
        write_all(fd, data)

    monkeypatch.setattr(restoring, "_write_all", fill)
    with pytest.raises(BundleFault, match="No space left") as caught:
        restore(bundle, tmp_path / "into", trust=trust(), expected_key=FINGERPRINT.key)
    assert caught.value.cause == BundleCause.NO_SPACE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bundle", "made"]
