"""The store in an OCI registry, against Debian's docker-registry; what a network does to it, through a proxy."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from runtime.cache.stores import oci_upload
from runtime.cache.stores.base import BadStoreUrl, BundleRef, StoreCause, StoreFault
from runtime.cache.stores.keep import Keep
from runtime.cache.stores.oci import OciStore
from runtime.cache.stores.oci_client import RegistryClient
from runtime.cache.stores.oci_layout import BUNDLE_TYPE, MANIFEST_TYPE, from_manifest, tag_of, to_manifest
from runtime.cache.stores.patience import Patience
from tests.unit.runtime.cache.proxy import Proxy, proxy_to
from tests.unit.runtime.cache.servers import Server, docker_registry
from tests.unit.runtime.cache.stores.samples import KEY, NOON, OTHER_KEY, bundle, ref
from tests.unit.runtime.cache.token_service import TokenService

SIZE_BYTES = 2_000_000
SECRET_BCRYPT = "$2y$04$zMq2jBdrMhLGTA0czYyDUuUsm12Ec7os9iIJJJung1vNLMRa0OLk."
"""The word `secret` as `htpasswd -B` keeps it."""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with docker_registry(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture(autouse=True)
def no_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever runs this may be logged in somewhere."""
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


def log_in(tmp_path: Path, port: int, login: str = "user:secret") -> None:
    auth = base64.b64encode(login.encode()).decode()
    (tmp_path / "auth.json").write_text(json.dumps({"auths": {f"127.0.0.1:{port}": {"auth": auth}}}))


async def no_sleep(seconds: float) -> None:
    """Between tries."""


def store_at(port: int, tmp_path: Path, patience: Patience | None = None) -> OciStore:
    url = f"oci+http://127.0.0.1:{port}/team/{tmp_path.name.replace('_', '-').lower()}"
    return OciStore.at(url, patience=patience or Patience(total_s=20, window_s=5), sleep=no_sleep)


@pytest.fixture
async def store(registry: Server, tmp_path: Path) -> AsyncIterator[OciStore]:
    store = store_at(registry.port, tmp_path)
    yield store
    await store.close()


@pytest.fixture
async def proxy(registry: Server) -> AsyncIterator[Proxy]:
    async with proxy_to(registry.port) as proxy:
        yield proxy


async def test_what_is_published_is_the_newest_and_comes_back_whole(store: OciStore, tmp_path: Path) -> None:
    file, digest = bundle(tmp_path, size_bytes=SIZE_BYTES)
    assert await store.newest(KEY) is None  # a repository that nobody pushed to
    older = await store.publish(KEY, *bundle(tmp_path, 2))
    ref = await store.publish(KEY, file, digest, {"pod": "chat-0"})
    assert await store.newest(KEY) == ref
    assert await store.newest(OTHER_KEY) is None
    seen: list[int] = []
    await store.fetch(ref, tmp_path / "b", lambda done, total: seen.append(done))
    assert (tmp_path / "b").read_bytes() == file.read_bytes()
    assert len(seen) > 1
    listed = await store.list()
    assert listed == await store.list(KEY) == (older, ref)
    assert listed[-1].metadata == {"pod": "chat-0"}
    assert await store.list(OTHER_KEY) == ()


async def test_the_layer_is_the_bundle_and_the_manifest_an_artifact(
    store: OciStore, registry: Server, tmp_path: Path
) -> None:
    ref = await store.publish(KEY, *bundle(tmp_path))
    async with httpx.AsyncClient() as client:
        url = store._client.url(f"manifests/{tag_of(ref)}")
        manifest = (await client.get(url, headers={"Accept": MANIFEST_TYPE})).json()
    assert manifest["artifactType"] == BUNDLE_TYPE
    assert [layer["digest"] for layer in manifest["layers"]] == [f"sha256:{ref.digest}"]
    assert len(tag_of(ref)) <= 128


async def test_a_large_bundle_goes_up_in_chunks_and_again_not_at_all(
    store: OciStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oci_upload, "CHUNK_BYTES", 300_000)
    sent = []
    real = oci_upload._send

    async def send(client: RegistryClient, location: str, offset: int, chunk: bytes) -> str:
        sent.append(offset)
        return await real(client, location, offset, chunk)

    monkeypatch.setattr(oci_upload, "_send", send)
    file, digest = bundle(tmp_path, size_bytes=SIZE_BYTES)
    ref = await store.publish(KEY, file, digest)
    await store.publish(KEY, file, digest)
    assert sent == list(range(0, SIZE_BYTES, 300_000))
    await store.fetch(ref, tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("lost", "offsets"),
    [
        ("request", [0, 300_000, 300_000, 600_000, 900_000]),
        # The chunk is there, its answer is not: sent once more it would be appended. Debian's registry starts over.
        ("answer", [0, 300_000, 0, 300_000, 600_000, 900_000]),
    ],
)
async def test_an_upload_that_breaks_is_taken_up(
    store: OciStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str, offsets: list[int]
) -> None:
    monkeypatch.setattr(oci_upload, "CHUNK_BYTES", 300_000)
    sent = []
    real = oci_upload._send

    async def send(client: RegistryClient, location: str, offset: int, chunk: bytes) -> str:
        sent.append(offset)
        if len(sent) == 2 and lost == "request":
            raise StoreFault(StoreCause.UNREACHABLE, "there", "the request was lost", "nothing")
        answer = await real(client, location, offset, chunk)
        if len(sent) == 2 and lost == "answer":
            raise StoreFault(StoreCause.UNREACHABLE, "there", "the answer was lost", "nothing")
        return answer

    monkeypatch.setattr(oci_upload, "_send", send)
    file, digest = bundle(tmp_path, size_bytes=1_000_000)
    ref = await store.publish(KEY, file, digest)
    assert sent == offsets
    await store.fetch(ref, tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == file.read_bytes()


async def test_two_publish_the_same_at_once_and_both_are_content(store: OciStore, tmp_path: Path) -> None:
    file, digest = bundle(tmp_path)
    first, second = await asyncio.gather(store.publish(KEY, file, digest), store.publish(KEY, file, digest))
    assert first == second
    assert await store.list() == (first,)


async def test_delete_and_gc(store: OciStore, tmp_path: Path) -> None:
    refs = [await store.publish(KEY, *bundle(tmp_path, seed, 1000)) for seed in (1, 2, 3)]
    assert await store.gc(Keep(per_key=2), NOON) == (refs[0],)
    await store.delete(refs[2])
    await store.delete(refs[2])
    assert await store.newest(KEY) == refs[1]
    await store.delete(refs[1])
    assert await store.newest(KEY) is None
    assert await store.list() == ()


async def test_deleted_between_list_and_fetch(store: OciStore, tmp_path: Path) -> None:
    ref = await store.publish(KEY, *bundle(tmp_path))
    gone = BundleRef(KEY, "0" * 64, ref.size_bytes, ref.published_at)  # its bytes collected
    with pytest.raises(StoreFault) as caught:
        await store.fetch(gone, tmp_path / "b")
    assert caught.value.cause is StoreCause.ABSENT
    assert not (tmp_path / "b").exists()


async def test_a_tag_that_holds_something_else_is_no_bundle(store: OciStore, tmp_path: Path) -> None:
    """An image that somebody pushed under a fingerprint's tag; the bundle is found by its own."""
    ref = await store.publish(KEY, *bundle(tmp_path))
    other = json.loads(to_manifest(ref)) | {"annotations": {}}
    await store._tag(KEY, json.dumps(other).encode())
    await store._tag("latest", json.dumps(other).encode())
    assert await store.newest(KEY) == ref
    assert await store.list() == (ref,)


async def test_another_bundle_under_the_tag_is_left_as_it_is(store: OciStore, tmp_path: Path) -> None:
    there = await store.publish(KEY, *bundle(tmp_path))
    file, digest = bundle(tmp_path, 2)
    ours = BundleRef(KEY, digest, 1, NOON)
    await store._tag(tag_of(ours), to_manifest(there))
    with pytest.raises(StoreFault, match="and is left as it is") as caught:
        await store.publish(KEY, file, digest)
    assert caught.value.cause is StoreCause.CORRUPT


@pytest.mark.parametrize(
    "damage", [{"layers": []}, {"annotations": 1}, {"layers": [{"digest": "sha256:0", "size": 1}]}]
)
def test_a_manifest_that_differs_from_its_record_is_none(damage: dict[str, object]) -> None:
    assert from_manifest(to_manifest(ref(1))) == ref(1)
    assert from_manifest(json.dumps(json.loads(to_manifest(ref(1))) | damage).encode()) is None
    assert from_manifest(b"[1]") is None


async def fault_of_fetch(store: OciStore, ref: BundleRef, into: Path) -> StoreFault:
    with pytest.raises(StoreFault) as caught:
        await store.fetch(ref, into)
    await store.close()
    assert not into.exists()
    assert [path for path in into.parent.iterdir() if path.name.startswith(".tmp")] == []
    return caught.value


async def test_a_transfer_that_breaks_is_taken_up_where_it_stood(store: OciStore, proxy: Proxy, tmp_path: Path) -> None:
    file, digest = bundle(tmp_path, size_bytes=3_000_000)
    ref = await store.publish(KEY, file, digest)
    proxy.break_after, proxy.breaks = 1_200_000, 2
    through = store_at(proxy.port, tmp_path)
    await through.fetch(ref, tmp_path / "b")
    await through.close()
    assert proxy.breaks == 0
    assert (tmp_path / "b").read_bytes() == file.read_bytes()


async def test_a_registry_that_stalls_does_not_hold_the_start(store: OciStore, proxy: Proxy, tmp_path: Path) -> None:
    ref = await store.publish(KEY, *bundle(tmp_path, size_bytes=SIZE_BYTES))
    proxy.stall_after = 1_000_000
    fault = await fault_of_fetch(store_at(proxy.port, tmp_path, Patience(window_s=0.3)), ref, tmp_path / "b")
    assert fault.cause is StoreCause.STALLED


async def test_a_registry_that_never_answers_does_not_hold_the_start(proxy: Proxy, tmp_path: Path) -> None:
    proxy.stall_after = 0
    slow = store_at(proxy.port, tmp_path, Patience(window_s=0.3))
    with pytest.raises(StoreFault) as caught:
        await slow.newest(KEY)
    await slow.close()
    assert caught.value.cause is StoreCause.STALLED
    assert proxy.connections == 1  # a stall is not tried again


async def test_a_wrong_byte_on_the_way_is_found(store: OciStore, proxy: Proxy, tmp_path: Path) -> None:
    file, digest = bundle(tmp_path, size_bytes=SIZE_BYTES)
    ref = await store.publish(KEY, file, digest)
    part = file.read_bytes()[1_000_000:1_000_008]
    proxy.flip = (part, part[::-1])
    fault = await fault_of_fetch(store_at(proxy.port, tmp_path), ref, tmp_path / "b")
    assert fault.cause is StoreCause.CORRUPT


async def test_the_registry_dies_midway(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with docker_registry(tmp_path_factory.mktemp("dying")) as dying:
        first = store_at(dying.port, tmp_path)
        ref = await first.publish(KEY, *bundle(tmp_path, size_bytes=SIZE_BYTES))
        await first.close()
        async with proxy_to(dying.port) as proxy:
            proxy.break_after, proxy.breaks = 1_000_000, 1
            store = store_at(proxy.port, tmp_path)
            with pytest.raises(StoreFault) as caught:
                await store.fetch(ref, tmp_path / "b", lambda done, total: dying.kill())
            await store.close()
    assert caught.value.cause is StoreCause.UNREACHABLE
    assert not (tmp_path / "b").exists()


async def test_nobody_listens(tmp_path: Path) -> None:
    store = store_at(1, tmp_path)
    for attempt in (store.newest(KEY), store.list(), store.publish(KEY, *bundle(tmp_path))):
        with pytest.raises(StoreFault, match="look at the registry") as caught:
            await attempt
        assert caught.value.cause is StoreCause.UNREACHABLE
    await store.close()


async def test_a_login_by_password(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("htpasswd")
    (folder / "htpasswd").write_text(f"user:{SECRET_BCRYPT}\n")
    auth = f'auth: {{htpasswd: {{realm: here, path: "{folder / "htpasswd"}"}}}}\n'
    with docker_registry(folder, auth) as server:
        await _denied_without_login_then_not(server, tmp_path)


async def test_a_login_by_token(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("token")
    service = TokenService(folder)
    try:
        with docker_registry(folder, service.config) as server:
            await _denied_without_login_then_not(server, tmp_path)
    finally:
        service.close()
    assert any("push" in scope for scope in service.asked)
    assert len(service.asked) <= 3  # kept between requests: one for each scope that was wanted


async def _denied_without_login_then_not(server: Server, tmp_path: Path) -> None:
    store = store_at(server.port, tmp_path)
    file, digest = bundle(tmp_path)
    for login in (None, "user:wrong"):
        if login is not None:
            log_in(tmp_path, server.port, login)
        for attempt in (store.newest(KEY), store.publish(KEY, file, digest)):
            with pytest.raises(StoreFault, match="log in as one who may pull") as caught:
                await attempt
            assert caught.value.cause is StoreCause.DENIED
            assert "wrong" not in str(caught.value)
    log_in(tmp_path, server.port)
    ref = await store.publish(KEY, file, digest)
    await store.fetch(ref, tmp_path / "b")
    await store.close()
    assert (tmp_path / "b").read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    "url",
    [
        "oci://registry.example",
        "oci://registry.example/Upper",
        "oci://registry.example/a:tag",
        "oci:///a/b",
        "oci://registry.example/a/../b",
        "oci://registry.example/a?x=1",
        "oci+http://registry.example/a",
    ],
)
def test_a_url_that_can_be_no_repository_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PILOTLIGHT_OCI_ALLOW_HTTP", raising=False)
    with pytest.raises(BadStoreUrl):
        OciStore.at(url)


async def test_without_tls_beyond_this_machine_only_if_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTLIGHT_OCI_ALLOW_HTTP", "true")
    store = OciStore.at("oci+http://registry.example/a")
    assert store._client.url("x") == "http://registry.example/v2/a/x"
    await store.close()
    secure = OciStore.at("oci://registry.example:5000/a")
    assert secure._client.url("x") == "https://registry.example:5000/v2/a/x"
    with pytest.raises(StoreFault, match="set the registry's own URL to https"):
        secure._client.absolute("http://registry.example:5000/v2/a/blobs/uploads/1")
    await secure.close()
