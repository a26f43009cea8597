"""FlashInfer asks ninja at each load whether its kernels are up to date; restored ones must be."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.cache.bundle import pack
from runtime.cache.layout import PARTS
from runtime.cache.restore import restore
from tests.unit.runtime.cache.trees import FINGERPRINT, PROVENANCE, a_key, trust

BUILD = """\
rule copy
  command = cp $in $out && echo "$out: $header" > $out.d
  depfile = $out.d
  deps = gcc
build op.o: copy {generated}/op.cu
  header = {generated}/header.h
build op.so: copy op.o
  header = {generated}/header.h
"""


def _ninja(build: Path) -> str:
    beside = Path(sys.executable).parent
    ninja = shutil.which("ninja", path=f"{beside}:{os.environ['PATH']}")
    if ninja is None:
        pytest.skip("ninja is not installed (it comes with vLLM: make setup; Debian: ninja-build)")
    return subprocess.run([ninja, "-C", str(build)], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("kept", [True, False])
def test_restored_kernels_are_not_built_again(tmp_path: Path, *, kept: bool) -> None:
    """The other case shows that ninja does build again where times are not kept."""
    root = tmp_path / "cache"
    workspace = root / "flashinfer/.cache/flashinfer/0.6/90a"
    build, generated = workspace / "cached_ops/op", workspace / "generated/op"
    for directory in (build, generated):
        directory.mkdir(parents=True)
    (generated / "op.cu").write_text("kernel")
    (generated / "header.h").write_text("header")
    (build / "build.ninja").write_text(BUILD.format(generated=generated))
    assert "no work" not in _ninja(build)
    assert "no work to do" in _ninja(build)
    parts = tuple(replace(part, mtimes=kept and part.mtimes) for part in PARTS)
    packed = pack(root, tmp_path, fingerprint=FINGERPRINT, provenance=PROVENANCE, signer=a_key(), parts=parts)
    shutil.rmtree(root)
    restore(packed.path, root, trust=trust(), expected_key=FINGERPRINT.key)
    assert ("no work to do" in _ninja(build)) is kept
