"""Where caches lie, and that the table is still that of the installed vLLM and Triton."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.cache.layout import PARTS, environment, holds_paths, is_passing, part_of
from runtime.cache.paths import check_path

ROOT = Path("/cache")


def test_every_variable_leads_into_its_part() -> None:
    moved = environment(ROOT)
    assert moved.pop("VLLM_CACHE_ROOT") == "/cache"
    assert moved == {
        "DG_JIT_CACHE_DIR": "/cache/deep_gemm",
        "FLASHINFER_WORKSPACE_BASE": "/cache/flashinfer",
        "TILELANG_CACHE_DIR": "/cache/tilelang",
        "TILELANG_TMP_DIR": "/cache/tilelang/tmp",
        "TORCHINDUCTOR_CACHE_DIR": "/cache/inductor_cache",
        "TRITON_CACHE_DIR": "/cache/triton_cache",
    }


def test_parts_are_named_once_and_stand_in_the_order_of_bundles() -> None:
    directories = [part.directory.encode() for part in PARTS]
    assert directories == sorted(set(directories))
    assert len({part.name for part in PARTS}) == len(PARTS)
    for part in PARTS:
        check_path(ROOT, f"{part.directory}/x")
        assert part_of(f"{part.directory}/a/b") is part
    assert part_of("assets/x") is None


@pytest.mark.parametrize(
    ("name", "passing"),
    [
        ("c3fmgm6z.lock", True),
        ("lock", True),
        (".lock", True),
        (".7.140.tmp", True),
        ("tmp.pid_7_0f3a", True),
        ("tmpab12cd_9", True),
        (".nfs000000001", True),
        ("__pycache__", True),
        ("flashinfer_jit.log", True),
        ("x.pyc", True),
        ("model", False),
        (".ninja_log", False),
        (".ninja_deps", False),
        ("build.ninja", False),
        ("c3fmgm6z.main.so", False),
        ("vllm_compile_cache.py", False),
        ("tmpl_kernel.cu", False),
        ("locksmith", False),
        ("block", False),
    ],
)
def test_what_is_of_no_use_to_another_process(name: str, *, passing: bool) -> None:
    assert all(is_passing(part, name, directory=False) == passing for part in PARTS)


def test_scratch_is_scratch_only_as_a_directory_of_its_part() -> None:
    by_name = {part.name: part for part in PARTS}
    assert is_passing(by_name["deep-gemm"], "tmp", directory=True)
    assert not is_passing(by_name["deep-gemm"], "tmp", directory=False)
    assert not is_passing(by_name["triton"], "tmp", directory=True)
    assert is_passing(by_name["torch-compile"], "locks", directory=True)


def test_group_files() -> None:
    assert holds_paths("triton_cache/KEY/__grp__kernel.json")
    assert not holds_paths("triton_cache/KEY/kernel.json")


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed (make setup)")
def test_triton_puts_its_cache_where_the_table_says(tmp_path: Path) -> None:
    """Also that its group files are those that are rewritten, and that its locks and drafts are left out."""
    code = (
        "from triton.runtime.cache import FileCacheManager as F\n"
        "m = F('KEY'); p = m.put(b'x', 'k.cubin'); m.put_group('k.json', {'k.cubin': p})\n"
    )
    subprocess.run([sys.executable, "-c", code], env=os.environ | environment(tmp_path), check=True)
    found = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(found) == ["triton_cache/KEY/__grp__k.json", "triton_cache/KEY/k.cubin"]
    assert str(tmp_path / "triton_cache/KEY/k.cubin") in (tmp_path / found[found.index(sorted(found)[0])]).read_text()


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed (make setup)")
@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("compilation/decorators.py", '"torch_compile_cache"'),
        ("compilation/decorators.py", 'os.environ["TORCHINDUCTOR_CACHE_DIR"] = inductor_cache'),
        ("compilation/compiler_interface.py", 'os.environ.get("TRITON_CACHE_DIR")'),
        ("model_executor/models/registry.py", 'Path(envs.VLLM_CACHE_ROOT) / "modelinfos"'),
        ("v1/worker/startup_plan.py", 'envs.VLLM_CACHE_ROOT, "startup_plan"'),
        ("utils/deep_gemm.py", 'DEEP_GEMM_JIT_CACHE_ENV_NAME = "DG_JIT_CACHE_DIR"'),
        ("model_executor/warmup/flashinfer_autotune_cache.py", '/ "flashinfer_autotune_cache"'),
    ],
)
def test_vllm_still_puts_its_caches_there(file: str, says: str) -> None:
    """A new vLLM that keeps one elsewhere would have bundles without it: look where, and correct the table."""
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    assert says in (Path(spec.origin).parent / file).read_text()
