import asyncio
import hashlib
import json
import os
import re
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract import FailureCause
from runtime.ready.fault import Fault
from runtime.weights.given import write_list
from runtime.weights.integrity import ModelFacts, Needs, check_model, prove_model
from runtime.weights.remote import RemoteFacts
from runtime.weights.safetensors import MAX_HEADER_BYTES, BadFileError, tensor_names
from tests.fakes.model import make_model, safetensors_bytes

F32 = {"dtype": "F32", "shape": [1]}


def file(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


NO_FILES: tuple[object, ...] = ([], 7, None, {}, "", "..", "../model.safetensors", "/etc/passwd")
WHOLE = safetensors_bytes({"a": b"12345678", "b": b"1234"})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_model(tmp_path / "model")


def sharded(model: Path) -> Path:
    (model / "model.safetensors").unlink()
    (model / "m-1.safetensors").write_bytes(safetensors_bytes({"a": b"1" * 10}))
    (model / "m-2.safetensors").write_bytes(safetensors_bytes({"b": b"2" * 20}))
    index = {"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    return model


def check(model: Path, needs: Needs = Needs()) -> ModelFacts:  # noqa: B008  (frozen)
    return check_model(model, needs, model.parent / "digests.json", threading.Event())


def test_a_whole_model(model: Path) -> None:
    facts = check(model)
    assert facts.weight_bytes == (model / "model.safetensors").stat().st_size
    assert facts.digest is not None
    assert facts.digest.startswith("sha256:")


def test_a_whole_model_in_shards(model: Path) -> None:
    facts = check(sharded(model))
    assert facts.weight_bytes == sum(path.stat().st_size for path in model.glob("m-*"))


def remove(name: str) -> Callable[[Path], None]:
    return lambda model: (model / name).unlink()


def write(name: str, data: bytes) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        (model / name).write_bytes(data)

    return change


def truncate(model: Path) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize(
    ("break_it", "file", "words"),
    [
        pytest.param(remove("config.json"), "config.json", "is missing", id="no config"),
        pytest.param(write("config.json", b"{"), "config.json", "is not JSON", id="broken config"),
        pytest.param(write("config.json", b"[]"), "config.json", "is not a JSON object", id="config of another kind"),
        pytest.param(remove("tokenizer.json"), "tokenizer.json", "no other tokenizer", id="no tokenizer"),
        pytest.param(remove("model.safetensors"), "model.safetensors", "no other weights", id="no weights"),
        pytest.param(truncate, "model.safetensors", "its header says", id="cut short"),
        pytest.param(write("model.safetensors", WHOLE + b"x"), "model.safetensors", "its header says", id="too long"),
        pytest.param(write("model.safetensors", b"abc"), "model.safetensors", "too few", id="almost empty"),
        pytest.param(
            write("model.safetensors.index.json", b'{"weight_map": {}}'),
            "model.safetensors.index.json",
            "has no weight_map",
            id="empty index",
        ),
        pytest.param(write("config.json", b"[" * 100_000), "config.json", "is not JSON", id="config nested too deep"),
        pytest.param(write("config.json", b"\xff\xfe\x00"), "config.json", "is not JSON", id="config of bytes"),
        pytest.param(write("tokenizer.json", b"<html>"), "tokenizer.json", "is not JSON", id="tokenizer is a page"),
        *(
            pytest.param(
                write("model.safetensors.index.json", json.dumps({"weight_map": {"w": name}}).encode()),
                "model.safetensors.index.json",
                "which is no file of this directory",
                id=f"index names {name!r}",
            )
            for name in NO_FILES
        ),
        pytest.param(
            write("model.safetensors", b"version 1\noid sha256:" + b"0" * 64 + b"\nsize 9\n"),
            "model.safetensors",
            "is a Git LFS pointer",
            id="pointer",
        ),
        pytest.param(
            write("model.safetensors.aria2", b""), "model.safetensors.aria2", "download that is not over", id="download"
        ),
        pytest.param(
            write("part-00001-of-00003.safetensors", WHOLE),
            "part-00002-of-00003.safetensors",
            "the other shards' names count it",
            id="numbered shard missing, no index",
        ),
        pytest.param(
            write("model.safetensors.index.json", b'{"weight_map": {"w": "gone.safetensors"}}'),
            "gone.safetensors",
            "is missing (model.safetensors.index.json names it)",
            id="missing shard",
        ),
        pytest.param(
            write("model.safetensors.index.json", b'{"weight_map": {"other": "model.safetensors"}}'),
            "model.safetensors",
            "lacks tensor other",
            id="tensor not in its shard",
        ),
    ],
)
def test_an_incomplete_model_names_the_file(
    model: Path, break_it: Callable[[Path], None], file: str, words: str
) -> None:
    break_it(model)
    with pytest.raises(Fault) as caught:
        check(model)
    assert caught.value.cause is FailureCause.MODEL_INCOMPLETE
    assert caught.value.numbers == {"file": str(model / file)}
    assert words in str(caught.value)
    assert re.search(": (copy the model directory again|run `git lfs pull`|let it finish)", str(caught.value))


def test_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="does not exist on this host") as caught:
        check(tmp_path / "nowhere")
    assert caught.value.cause is FailureCause.MODEL_MISSING


@pytest.mark.parametrize(
    ("args", "needs"),
    [
        ((), Needs()),
        (("--load-format", "dummy"), Needs(weights=False, load_format="dummy")),
        (("--load-format=dummy",), Needs(weights=False, load_format="dummy")),
        (("--load_format", "pt", "--load-format=NPCACHE"), Needs(load_format="npcache")),
        (("--hf-overrides", "dummy"), Needs()),
        (("--tokenizer", "x"), Needs(tokenizer=False)),
        (("--skip_tokenizer_init",), Needs(tokenizer=False)),
        (("--load-format", "auto", "--tokenizer-mode", "slow"), Needs()),
    ],
)
def test_needs_of_arguments(args: tuple[str, ...], needs: Needs) -> None:
    assert Needs.of(args) == needs


def test_dummy_weights_need_no_file(model: Path) -> None:
    (model / "model.safetensors").unlink()
    assert check(model, Needs(weights=False)).weight_bytes == 0


@pytest.mark.parametrize(("name", "pickle"), [("pytorch_model.bin", ("pytorch_model*.bin",)), ("model.gguf", ())])
def test_other_weights_are_only_counted(model: Path, name: str, pickle: tuple[str, ...]) -> None:
    (model / "model.safetensors").unlink()
    (model / name).write_bytes(b"12345")
    assert check(model, Needs(pickle=pickle)).weight_bytes == 5


@pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.00.pt"])
@pytest.mark.parametrize("pickle", [(), ("other*.bin",)])
def test_pickle_is_refused_unless_allowed_by_name(model: Path, name: str, pickle: tuple[str, ...]) -> None:
    (model / "model.safetensors").unlink()
    (model / name).write_bytes(b"12345")
    with pytest.raises(Fault, match=f"{name} is pickled: reading it can run code.*weights prepare"):
        check(model, Needs(pickle=pickle))


def test_pickle_that_is_not_loaded_is_not_refused(model: Path) -> None:
    (model / "pytorch_model.bin").write_bytes(b"12345")
    assert check(model).weight_bytes == (model / "model.safetensors").stat().st_size
    with pytest.raises(Fault, match="is pickled"):
        check(model, Needs(load_format="npcache"))


def test_leftovers_of_training_are_no_weights(model: Path) -> None:
    (model / "model.safetensors").unlink()
    (model / "training_args.bin").write_bytes(b"12345")
    with pytest.raises(Fault, match="no other weights are there"):
        check(model)


async def test_a_bucket_is_looked_at_with_the_engines_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check_remote(url: str, needs: Needs, env: Mapping[str, str]) -> RemoteFacts:
        assert (url, needs, env) == ("s3://bucket/x", Needs(), {"AWS_REGION": "r"})
        return RemoteFacts("etags:1", 7, ("a",), 5)

    monkeypatch.setattr("runtime.weights.integrity.check_remote", check_remote)
    facts = await prove_model("s3://bucket/x", Needs(), tmp_path / "digests.json", {"AWS_REGION": "r"})
    assert facts == ModelFacts("etags:1", 7, largest_tensor_bytes=5)


async def test_a_directory_is_proven_in_a_thread(model: Path) -> None:
    digests = model.parent / "digests.json"
    first = await prove_model(str(model), Needs(), digests)
    assert first.read_bytes == sum(path.stat().st_size for path in model.iterdir())
    assert await prove_model(str(model), Needs(), digests) == check(model) == replace(first, read_bytes=0)


def test_tensor_names(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(WHOLE)
    assert tensor_names(path) == {"a", "b"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (struct.pack("<Q", MAX_HEADER_BYTES + 1), "its header alone"),
        (struct.pack("<Q", 2**63), "its header alone would take 9223372036854775816"),
        (struct.pack("<Q", 2**64 - 1), "its header alone"),
        (struct.pack("<Q", 100) + b"{}", "its header alone"),
        (struct.pack("<Q", 50_000) + b"[" * 50_000, "unreadable"),
        (file({"a": {**F32, "data_offsets": [0, 2**63]}}), "9223372036854775808 bytes, too few or many"),
        (file({"a": {"dtype": "X", "shape": [], "data_offsets": [0, 2**63]}}), "its header says 9223372036854775"),
        (file({"a": {**F32, "data_offsets": [-4, 0]}}), "no data_offsets for tensor a"),
        (file({"a": {**F32, "data_offsets": [4, 0]}}), "no data_offsets for tensor a"),
        (file({"a": {**F32, "data_offsets": [False, 4]}}, b"1234"), "no data_offsets for tensor a"),
        (file({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, b"1234"), "no shape or dtype for tensor a"),
        (file({"a": {**F32, "shape": [-1], "data_offsets": [0, 4]}}, b"1234"), "no shape or dtype for tensor a"),
        (file({"a": {**F32, "shape": [2], "data_offsets": [0, 4]}}, b"1234"), "4 bytes, too few or many for F32"),
        (file({"a": {**F32, "data_offsets": [4, 8]}}, b"12345678"), "begins at 4 instead of 0"),
        (file({n: {**F32, "data_offsets": [0, 4]} for n in "ab"}, b"1234"), "begins at 0 instead of 4"),
        (struct.pack("<Q", 13) + b'{"a":1,"a":2}', "a name stands in it twice"),
        (struct.pack("<Q", 2) + b"xx", "unreadable"),
        (struct.pack("<Q", 2) + b"[]", "not an object"),
        (struct.pack("<Q", 7) + b'{"a":1}', "no data_offsets for tensor a"),
        (struct.pack("<Q", 26) + b'{"a":{"data_offsets":[0]}}', "no data_offsets for tensor a"),
    ],
)
def test_what_is_no_safetensors_file(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(BadFileError, match=words):
        tensor_names(path)


def test_an_unknown_dtype_is_taken_as_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(file({"a": {"dtype": "F3_NEW", "shape": [5], "data_offsets": [0, 4]}}, b"1234"))
    assert tensor_names(path) == {"a"}


def hub(root: Path) -> Path:
    """The hub's cache of one model: a snapshot of links to blobs that are named by their digest."""
    plain = sharded(make_model(root / "plain"))
    blobs = root / "models--org--name" / "blobs"
    snapshot = root / "models--org--name" / "snapshots" / ("0" * 40)
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for path in plain.iterdir():
        data = path.read_bytes()
        blob = blobs / (hashlib.sha256 if path.suffix == ".safetensors" else hashlib.sha1)(data).hexdigest()
        blob.write_bytes(data)
        (snapshot / path.name).symlink_to(Path("..", "..", "blobs", blob.name))
    return snapshot


def test_the_hubs_cache_is_accepted_and_its_blobs_are_compared(tmp_path: Path) -> None:
    assert check(hub(tmp_path)).compared == 2


def test_a_flipped_bit_in_a_blob_is_found(tmp_path: Path) -> None:
    snapshot = hub(tmp_path)
    flip((snapshot / "m-2.safetensors").resolve())
    with pytest.raises(Fault, match=r"m-2\.safetensors has sha256 .* the blob's name"):
        check(snapshot)


def test_a_blob_that_is_gone_is_named(tmp_path: Path) -> None:
    snapshot = hub(tmp_path)
    (snapshot / "m-2.safetensors").resolve().unlink()
    with pytest.raises(Fault, match=r"m-2\.safetensors is a link to \.\./\.\./blobs/\w+, which is missing"):
        check(snapshot)


def test_links_from_elsewhere_to_the_hubs_blobs_are_accepted_and_compared(tmp_path: Path) -> None:
    snapshot = hub(tmp_path)
    local = tmp_path / "local"
    local.mkdir()
    for path in snapshot.iterdir():
        (local / path.name).symlink_to(path.resolve())
    assert check(local).compared == 2
    flip((local / "m-1.safetensors").resolve())
    with pytest.raises(Fault, match=r"m-1\.safetensors has sha256"):
        check(local)


@pytest.mark.parametrize("place", ["blobs", "models--x/other", "plain/blobs"])
def test_a_place_that_only_looks_like_the_hubs_is_refused(model: Path, place: str) -> None:
    elsewhere = model.parent / place / "f"
    elsewhere.parent.mkdir(parents=True)
    (model / "model.safetensors").rename(elsewhere)
    (model / "model.safetensors").symlink_to(elsewhere)
    with pytest.raises(Fault, match="outside the model directory"):
        check(model)


def test_a_link_out_of_the_directory_is_refused(model: Path) -> None:
    elsewhere = model.parent / "elsewhere.safetensors"
    (model / "model.safetensors").rename(elsewhere)
    (model / "model.safetensors").symlink_to(elsewhere)
    with pytest.raises(
        Fault, match=f"is a link to {elsewhere}, outside the model directory: put the file in its place"
    ):
        check(model)


def test_links_inside_and_a_link_to_the_directory_are_fine(model: Path) -> None:
    (model / "real").mkdir()
    (model / "model.safetensors").rename(model / "real" / "w")
    (model / "model.safetensors").symlink_to("real/w")
    link = model.parent / "link"
    link.symlink_to(model)
    assert check(link).weight_bytes


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def sums(model: Path) -> None:
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}" for p in sorted(model.iterdir())]
    (model / "SHA256SUMS").write_text("\n".join(lines) + "\n")


def ours(model: Path) -> None:
    write_list(
        model,
        {p.name: (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_size) for p in model.iterdir()},
        {},
    )


@pytest.mark.parametrize("give", [sums, ours])
def test_a_given_digest_finds_a_flipped_bit(model: Path, give: Callable[[Path], None]) -> None:
    give(model)
    assert check(model).compared == 3
    flip(model / "model.safetensors")
    with pytest.raises(
        Fault, match=r"model\.safetensors has sha256 .*(SHA256SUMS|pilotlight-digests.json) says"
    ) as caught:
        check(model)
    assert caught.value.numbers == {"file": str(model / "model.safetensors")}


def test_a_listed_file_that_is_gone_is_missing(model: Path) -> None:
    (model / "extra.json").write_text("{}")
    sums(model)
    (model / "extra.json").unlink()
    with pytest.raises(Fault, match=r"extra\.json is missing \(SHA256SUMS names it\)"):
        check(model)


def test_weights_that_our_list_does_not_know_are_refused(model: Path) -> None:
    ours(model)
    (model / "more.safetensors").write_bytes(WHOLE)
    with pytest.raises(Fault, match=r"more\.safetensors is not in pilotlight-digests\.json"):
        check(model)


def test_the_completion_mark_is_asked_for_only_where_required(model: Path) -> None:
    check(model)
    with pytest.raises(Fault, match="is missing: it is written last, so the copy is not complete"):
        check(model, Needs(list_required=True))
    ours(model)
    check(model, Needs(list_required=True))


def test_our_list_does_not_change_the_digest(model: Path) -> None:
    before = check(model).digest
    ours(model)
    assert check(model).digest == before


def test_a_rubbish_list_is_an_error_not_no_list(model: Path) -> None:
    (model / "SHA256SUMS").write_text("hello\n")
    with pytest.raises(Fault, match="SHA256SUMS has no sha256 and file name in line 1: write the list again"):
        check(model)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "pytorch_model.bin"])
def test_a_pipe_is_no_file_and_is_not_opened(model: Path, name: str) -> None:
    (model / name).unlink(missing_ok=True)
    if name.endswith(".bin"):
        (model / "model.safetensors").unlink()
    os.mkfifo(model / name)
    with pytest.raises(Fault) as fault:
        check_model(model, Needs(pickle=("*",)), model.parent / "digests.json", threading.Event())
    assert fault.value.cause is FailureCause.MODEL_INCOMPLETE
    assert name in str(fault.value)


async def test_a_file_system_that_does_not_answer_holds_nobody(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than an executor has threads wait for a file: another is proven all the same, and all can be cancelled."""
    answer, real = threading.Event(), check_model

    def check(directory: Path, *rest: Any) -> ModelFacts:
        if directory.name == "silent":
            answer.wait()
        return real(model, *rest)

    monkeypatch.setattr("runtime.weights.integrity.check_model", check)
    digests = model.parent / "digests.json"
    waiting = [asyncio.ensure_future(prove_model(str(model / "silent"), Needs(), digests)) for _ in range(40)]
    await asyncio.sleep(0)
    assert (await prove_model(str(model), Needs(), digests)).digest is not None
    for each in waiting:
        each.cancel()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(each) for each in done} == {asyncio.CancelledError}
    answer.set()
