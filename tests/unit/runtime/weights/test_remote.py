"""Models in a bucket: a moto server on loopback, and stores that stall, refuse or talk rubbish."""

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from runtime.contract import FailureCause
from runtime.ready.fault import Fault
from runtime.weights.needs import Needs
from runtime.weights.object_store import Bucket
from runtime.weights.remote import RemoteFacts, check_remote
from runtime.weights.remote import look as look_from_here
from tests.fakes.model import make_model, safetensors_bytes

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
Env = dict[str, str]


@pytest.fixture(scope="module")
def env() -> Iterator[Env]:
    """The environment of an engine that reads from a moto server."""
    server = pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[server]'")
    moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    try:
        _, port = moto.get_host_and_port()
        made = {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
        asyncio.run(bare(made, "PUT", "/models"))
        yield made
    finally:
        moto.stop()


async def bare(env: Env, method: str, path: str) -> None:
    """One request that moto takes unsigned: obstore makes no buckets."""
    port = int(env["AWS_ENDPOINT_URL"].rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
    )
    assert b" 200 " in (await reader.read()).splitlines()[0]
    writer.close()
    await writer.wait_closed()


def upload(env: Env, directory: Path, name: str) -> str:
    url = f"s3://models/{name}"
    store: Any = Bucket(url, env)._store
    for path in directory.iterdir():
        store.put(path.name, path.read_bytes())
    return url


def look(url: str, env: Env, timeout_s: float = 10.0) -> RemoteFacts:
    return asyncio.run(look_from_here(url, Needs(), env, timeout_s))


def sharded(directory: Path) -> Path:
    model = make_model(directory)
    (model / "model.safetensors").unlink()
    (model / "m-1.safetensors").write_bytes(safetensors_bytes({"a": b"1" * 10}))
    (model / "m-2.safetensors").write_bytes(safetensors_bytes({"b": b"2" * 20, "c": b""}))
    index = {"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-2.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    return model


def test_a_whole_model(tmp_path: Path, env: Env) -> None:
    model = sharded(tmp_path / "m")
    url = upload(env, model, "whole")
    facts = look(url, env)
    assert facts.shards == ("m-1.safetensors", "m-2.safetensors")
    assert facts.weight_bytes == sum(path.stat().st_size for path in model.glob("m-*"))
    assert facts.largest_tensor_bytes == 20
    assert look(url + "/", env) == facts
    make_model(tmp_path / "other", seed=1)
    upload(env, tmp_path / "other", "whole")
    assert look(url, env).stamp != facts.stamp


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("config.json", None, "config.json is missing"),
        ("config.json", b"{", "config.json is not JSON"),
        ("config.json", b"[]", "config.json is not a JSON object"),
        ("tokenizer.json", None, "no other tokenizer"),
        ("m-2.safetensors", None, r"m-2.safetensors is missing .*index.json names it"),
        ("m-2.safetensors", b"", "m-2.safetensors has 0 bytes, too few"),
        ("m-2.safetensors", struct.pack("<Q", 2**63), "its header alone would take"),
        ("m-2.safetensors", safetensors_bytes({"b": b"2" * 20})[:-1], "its header says"),
        ("m-2.safetensors", safetensors_bytes({"x": b"2" * 20}), "lacks tensor b"),
        ("model.safetensors.index.json", b"{}", "has no weight_map"),
        ("model.safetensors.index.json", b'{"weight_map": {"a": ["x"]}}', "names it"),
    ],
)
def test_an_incomplete_model_names_the_object(
    tmp_path: Path, env: Env, request: pytest.FixtureRequest, name: str, data: bytes | None, words: str
) -> None:
    model = sharded(tmp_path / "m")
    if data is None:
        (model / name).unlink()
    else:
        (model / name).write_bytes(data)
    url = upload(env, model, f"case-{abs(hash(request.node.name))}")
    with pytest.raises(Fault, match=words) as caught:
        look(url, env)
    assert caught.value.cause is FailureCause.MODEL_INCOMPLETE
    assert caught.value.permanent


def test_without_an_index_the_names_count(tmp_path: Path, env: Env) -> None:
    model = make_model(tmp_path / "m")
    (model / "model.safetensors").rename(model / "model-00001-of-00002.safetensors")
    with pytest.raises(Fault, match=r"model-00002-of-00002.safetensors is missing"):
        look(upload(env, model, "numbered"), env)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s3://models/nowhere", "holds nothing"),
        ("s3://no-such-bucket/x", "there is no such bucket"),
        ("https://models/x", "vLLM streams s3://, gs://, az:// only"),
    ],
)
def test_a_wrong_url(env: Env, url: str, words: str) -> None:
    with pytest.raises(Fault, match=words) as caught:
        look(url, env)
    assert caught.value.cause is FailureCause.MODEL_MISSING


async def test_it_looks_from_a_process_with_the_engines_environment(
    tmp_path: Path, env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's keys must not make a check pass that the engine's would fail."""
    url = upload(env, make_model(tmp_path / "m"), "own")
    assert await check_remote(url, Needs(), env, 60.0) == await look_from_here(url, Needs(), env, 60.0)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with refusing() as nobody, pytest.raises(Fault) as caught:
        # Without keys it asks the machine for its identity: here a server that refuses.
        await check_remote(url, Needs(), {"AWS_ENDPOINT_URL": env["AWS_ENDPOINT_URL"], "AWS_METADATA_ENDPOINT": nobody})
    assert caught.value.cause is FailureCause.MODEL_MISSING


async def test_what_is_wrong_comes_back_whole(tmp_path: Path, env: Env) -> None:
    model = make_model(tmp_path / "m")
    (model / "model.safetensors").write_bytes(b"")
    url = upload(env, model, "back")
    with pytest.raises(Fault, match="has 0 bytes, too few for a safetensors header: upload the model again") as caught:
        await check_remote(url, Needs(), env)
    assert (caught.value.permanent, caught.value.numbers) == (True, {"file": f"{url}/model.safetensors"})


async def test_cancelled_it_leaves_no_process() -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def say_nothing(_: socket.socket) -> None:
        loop.call_soon_threadsafe(begun.set)

    with serving(say_nothing) as endpoint:
        task = asyncio.create_task(check_remote("s3://models/x", Needs(), {**KEYS, "AWS_ENDPOINT_URL": endpoint}))
        async with asyncio.timeout(60):
            await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    alive = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    assert not [child for child in alive if "runtime.weights.remote" in child.cmdline()]


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A store on loopback that gives each connection to `answer`."""
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            held.append(connection)
            try:
                answer(connection)
            except OSError:
                continue

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)
        for connection in held:
            connection.close()


def refusing() -> Any:
    body = b"<Error><Code>AccessDenied</Code></Error>"

    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(
            b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body)
        )
        connection.close()

    return serving(answer)


def half_an_answer(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n<ListBucketResult>")


def rubbish(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
    connection.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(lambda connection: None, "gave no answer within 0.5 s", id="accepts and says nothing"),
        pytest.param(half_an_answer, "gave no answer within 0.5 s", id="stalls within an answer"),
        pytest.param(rubbish, "failed as it is listed", id="answers rubbish"),
        pytest.param(lambda connection: connection.close(), "cannot be reached", id="hangs up"),
    ],
)
def test_a_store_that_does_not_answer_is_named(answer: Callable[[socket.socket], None], words: str) -> None:
    with serving(answer) as endpoint, pytest.raises(Fault, match=words) as caught:
        look("s3://models/x", {**KEYS, "AWS_ENDPOINT_URL": endpoint}, 0.5)
    assert endpoint in str(caught.value)
    assert not caught.value.permanent, "it may answer the next time"


def test_a_store_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Fault, match="cannot be reached"):
        look("s3://models/x", {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}, 2.0)
