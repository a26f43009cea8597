"""The image for KServe's KernelCache, read back by plain HTTP and by skopeo."""

import asyncio
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from runtime.cache.stores.base import StoreCause, StoreFault
from runtime.cache.stores.kernel_cache import Target, entries_of, push_kernel_cache
from runtime.cache.stores.oci import OciStore
from tests.unit.runtime.cache.servers import Server, docker_registry
from tests.unit.runtime.cache.stores.samples import KEY, bundle

H100 = Target("cuda", "sm_90", 32, "13.0")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with docker_registry(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    files = {
        "torch_compile_cache/torch_aot_compile/aaaa/rank_0_0/model": b"m" * 1000,
        "torch_compile_cache/torch_aot_compile/aaaa/rank_1_0/model": b"n" * 1000,
        "torch_compile_cache/bbbb/rank_0_0/backbone/cache_key_factors.json": b'{"code_hash": "c", "env": {}}',
        "torch_compile_cache/bbbb/rank_0_0/backbone/artifact_compile_range_1_8_subgraph_0": b"x" * 10,
        "modelinfos/a.json": b"{}",
    }
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "link").symlink_to("/etc/passwd")
    return root


def test_entries_are_by_hash_and_kind(root: Path) -> None:
    aot, binary = entries_of(root)
    assert (aot["vllmHash"], aot["cacheFormat"]) == ("aaaa", "aot_compile")
    assert [entry["rank"] for entry in aot["aot_compile"]] == ["rank_0_0", "rank_1_0"]  # type: ignore[attr-defined]
    assert (binary["vllmHash"], binary["cacheFormat"]) == ("bbbb", "binary")


async def test_the_image_is_what_mcv_and_kserve_read(registry: Server, root: Path, tmp_path: Path) -> None:
    store = OciStore.at(f"oci+http://127.0.0.1:{registry.port}/team/kernel-cache")
    ref = await store.publish(KEY, *bundle(tmp_path))
    digest = await push_kernel_cache(store, root, "chat-h100", [H100])
    assert await push_kernel_cache(store, root, "again", [H100]) == digest  # equal contents, equal image
    assert await store.list() == (ref,)  # an image beside bundles is none of them
    await store.close()

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{registry.port}/v2/team/kernel-cache/") as client:
        accept = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
        answer = await client.get("manifests/chat-h100", headers=accept)
        assert "sha256:" + hashlib.sha256(answer.content).hexdigest() == digest
        manifest = answer.json()
        config = (await client.get(f"blobs/{manifest['config']['digest']}")).json()
        (layer,) = manifest["layers"]
        packed = (await client.get(f"blobs/{layer['digest']}")).content
    assert layer["mediaType"] == "application/vnd.oci.image.layer.v1.tar+gzip"
    plain = gzip.decompress(packed)
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(plain).hexdigest()]
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        sizes = {member.name: member.size for member in tar}
        said = json.loads(tar.extractfile("io.vllm.manifest/manifest.json").read())  # type: ignore[union-attr]
    cached = {name: size for name, size in sizes.items() if name.startswith("io.vllm.cache/")}
    assert "io.vllm.cache/torch_compile_cache/torch_aot_compile/aaaa/rank_0_0/model" in cached
    assert not any("link" in name for name in sizes)
    assert [entry["vllmHash"] for entry in said["vllm"]] == ["aaaa", "bbbb"]
    labels = config["config"]["Labels"]
    assert labels["cache.vllm.image/cache-size-bytes"] == str(sum(cached.values()))
    assert json.loads(labels["cache.vllm.image/summary"]) == {
        "targets": [{"backend": "cuda", "arch": "sm_90", "warp_size": 32, "cuda_version": "13.0"}]
    }
    assert labels["io.kserve.km/cache-hash"] == "aaaa,bbbb"
    assert labels["io.kserve.km/cache-mount-subpath"] == "torch_compile_cache"


def test_another_client_takes_the_image(registry: Server, root: Path, tmp_path: Path) -> None:
    """skopeo shares its image library with podman, buildah and CRI-O, which mount such images."""
    skopeo = shutil.which("skopeo")
    if skopeo is None:
        pytest.skip("skopeo is not installed: apt-get install skopeo")

    async def push() -> str:
        store = OciStore.at(f"oci+http://127.0.0.1:{registry.port}/team/skopeo")
        digest = await push_kernel_cache(store, root, "v1", [H100])
        await store.close()
        return digest

    digest = asyncio.run(push())
    image = f"docker://127.0.0.1:{registry.port}/team/skopeo:v1"
    seen = subprocess.run([skopeo, "inspect", "--tls-verify=false", image], check=True, capture_output=True, timeout=30)
    told = json.loads(seen.stdout)
    assert told["Digest"] == digest
    assert told["Labels"]["io.kserve.km/framework"] == "vllm"
    copy = [skopeo, "--insecure-policy", "copy", "-q", "--src-tls-verify=false", image, f"oci:{tmp_path / 'copy'}:v1"]
    subprocess.run(copy, check=True, capture_output=True, timeout=30)  # checks every digest on the way


async def test_a_root_without_a_compile_cache_is_said(tmp_path: Path) -> None:
    store = OciStore.at("oci+http://127.0.0.1:1/x")
    with pytest.raises(StoreFault, match="no compile cache") as caught:
        await push_kernel_cache(store, tmp_path, "v1", [H100])
    await store.close()
    assert caught.value.cause is StoreCause.ABSENT


@pytest.mark.parametrize("tag", ["", "a/b", "-x", "x" * 129, KEY, f"{KEY}.{KEY[:32]}"])
async def test_a_tag_of_bundles_is_never_taken(root: Path, tag: str) -> None:
    store = OciStore.at("oci+http://127.0.0.1:1/x")
    with pytest.raises(ValueError, match="can be no tag"):
        await push_kernel_cache(store, root, tag, [H100])
    await store.close()
