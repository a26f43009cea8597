"""Preparing a model: real torch reads and writes it; what goes wrong leaves nothing that looks like a model."""

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from demo.models import make_model
from runtime.ready.fault import Fault
from runtime.weights.examine import examine
from runtime.weights.finding import Code
from runtime.weights.given import LIST_NAME
from runtime.weights.needs import Needs
from runtime.weights.prepare import run
from runtime.weights.prepare.convert import Conversion, ConversionError, convert
from runtime.weights.prepare.run import PrepareError, prepare
from runtime.weights.safetensors import read_header

torch: Any = pytest.importorskip("torch", reason="torch is not installed: make setup")


def load(directory: Path) -> dict[str, Any]:
    from safetensors.torch import load_file  # noqa: PLC0415  (comes with vLLM)

    found: dict[str, Any] = {}
    for path in directory.glob("*.safetensors"):
        found |= load_file(path)
    return found


def same(one: dict[str, Any], two: dict[str, Any]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("tiny") / "model", seed=1)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The converter in this process, which has imported torch: four tests show it in its own."""

    def convert_here(weights: tuple[Path, ...], draft: Path, dtype: str | None, shard_bytes: int, _: object) -> None:
        try:
            list(convert(Conversion(tuple(map(str, weights)), str(draft), dtype, shard_bytes)))
        except ConversionError as error:
            raise PrepareError(str(error)) from error

    monkeypatch.setattr(run, "_convert", convert_here)


def pickled(tiny: Path, out: Path, **extra: Any) -> Path:
    """The same model as two pickled files, as older checkpoints are."""
    out.mkdir()
    for path in tiny.iterdir():
        if path.suffix != ".safetensors":
            (out / path.name).write_bytes(path.read_bytes())
    tensors = sorted(load(tiny).items())
    torch.save(dict(tensors[:7]), out / "pytorch_model-00001-of-00002.bin")
    torch.save({**dict(tensors[7:]), **extra}, out / "pytorch_model-00002-of-00002.bin")
    return out


def test_pickle_becomes_the_same_tensors_in_safetensors(tiny: Path, tmp_path: Path) -> None:
    source = pickled(tiny, tmp_path / "old")
    assert examine(source, Needs())[0].code is Code.PICKLE_ONLY
    made = prepare(source, tmp_path / "new", dtype=None)
    assert same(load(made.out), load(tiny))
    assert examine(made.out, Needs(list_required=True)) == ()
    assert sorted(path.name for path in made.out.iterdir()) == sorted(
        {path.name for path in tiny.iterdir()} | {LIST_NAME}
    )
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.usefixtures("quick")
def test_a_wrapped_state_dict_of_the_old_format(tiny: Path, tmp_path: Path) -> None:
    source = pickled(tiny, tmp_path / "old")
    for path in source.glob("*.bin"):
        path.unlink()
    torch.save({"state_dict": load(tiny)}, source / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    assert same(load(prepare(source, tmp_path / "new", dtype=None).out), load(tiny))


class Bomb:
    """Unpickled, it writes a file."""

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(Bomb.path),))

    path = Path("unset")


@pytest.mark.parametrize("how", ["torch", "plain"])
def test_pickle_that_would_run_code_is_refused_and_does_not_run(tiny: Path, tmp_path: Path, how: str) -> None:
    Bomb.path = tmp_path / "it-ran"
    source = pickled(tiny, tmp_path / "old")
    bad = source / "pytorch_model-00002-of-00002.bin"
    if how == "torch":
        torch.save({"w": Bomb()}, bad)
    else:
        bad.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(PrepareError, match=rf"{bad.name} holds more than tensors.*could run code"):
        prepare(source, tmp_path / "new", dtype=None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"rubbish", "cannot be read|holds more"),
        (b"", "cannot be read"),
        (b"PK\x03\x04" + b"0" * 100, "cannot be read"),
    ],
)
@pytest.mark.usefixtures("quick")
def test_a_damaged_pickle_is_named(tiny: Path, tmp_path: Path, data: bytes, words: str) -> None:
    source = pickled(tiny, tmp_path / "old")
    (source / "pytorch_model-00001-of-00002.bin").write_bytes(data)
    with pytest.raises(PrepareError, match=f"pytorch_model-00001-of-00002.bin.*({words})"):
        prepare(source, tmp_path / "new", dtype=None)


@pytest.mark.usefixtures("quick")
def test_what_is_no_tensor_and_what_is_there_twice(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(PrepareError, match="holds 'epoch', which is no tensor"):
        prepare(pickled(tiny, tmp_path / "a", epoch=3), tmp_path / "new", dtype=None)
    twice = pickled(tiny, tmp_path / "b", **{"lm_head.weight": torch.zeros(2)})
    with pytest.raises(PrepareError, match=r"holds tensor lm_head\.weight, which another file holds, too"):
        prepare(twice, tmp_path / "new", dtype=None)


@pytest.mark.usefixtures("quick")
def test_the_served_dtype(tiny: Path, tmp_path: Path) -> None:
    source = pickled(tiny, tmp_path / "old", **{"rope.positions": torch.arange(4)})
    found = examine(source, Needs(), "float32")
    assert Code.OTHER_DTYPE not in {each.code for each in found}, "of pickle no dtype is known without reading it"
    made = prepare(source, tmp_path / "new", dtype="float32")
    tensors = load(made.out)
    assert tensors["rope.positions"].dtype is torch.int64
    assert same(
        {name: value for name, value in tensors.items() if name != "rope.positions"},
        {name: value.to(torch.float32) for name, value in load(tiny).items()},
    )
    assert json.loads((made.out / "config.json").read_text())["dtype"] == "float32"
    assert [each.code for each in examine(made.out, Needs(), "bfloat16")] == [Code.OTHER_DTYPE]
    assert examine(made.out, Needs(), "float32") == ()


@pytest.mark.usefixtures("quick")
def test_values_that_the_dtype_cannot_hold_are_refused(tiny: Path, tmp_path: Path) -> None:
    source = pickled(tiny, tmp_path / "old", big=torch.tensor([1e6], dtype=torch.float32))
    with pytest.raises(PrepareError, match=r"has values that torch\.float16 cannot hold: convert to bfloat16"):
        prepare(source, tmp_path / "new", dtype="float16")


@pytest.mark.usefixtures("quick")
def test_files_of_even_size_in_the_order_of_the_layers(tmp_path: Path) -> None:
    source = make_model(tmp_path / "model", shards=3)
    made = prepare(source, tmp_path / "new", dtype=None, shard_bytes=250_000)
    files = sorted(made.out.glob("model-*.safetensors"))
    sizes = [path.stat().st_size for path in files]
    assert len(files) == made.files >= 4
    assert max(sizes) < 1.5 * sum(sizes) / len(sizes)
    names = [name for path in files for name in read_header(path).tensors]
    assert names[0] == "model.embed_tokens.weight"
    layers = [int(name.split(".")[2]) for name in names if ".layers." in name]
    assert layers == sorted(layers)
    assert same(load(made.out), load(source))


def test_what_is_not_whole_is_not_prepared(tiny: Path, tmp_path: Path) -> None:
    source = make_model(tmp_path / "model")
    (source / "tokenizer.json").unlink()
    (source / "tokenizer_config.json").unlink()
    with pytest.raises(Fault, match="no other tokenizer"):
        prepare(source, tmp_path / "new", dtype=None)
    with pytest.raises(PrepareError, match="exists: name a directory that does not"):
        prepare(tiny, source, dtype=None)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 512 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"a tmpfs needs the right to mount (root, CAP_SYS_ADMIN): {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_disk_that_is_too_small_is_told_before(tiny: Path, small: Path) -> None:
    with pytest.raises(
        PrepareError, match=r"has 512 KiB left, the copy takes about \d+ KiB: free some, or name another"
    ):
        prepare(tiny, small / "new", dtype=None)
    assert list(small.iterdir()) == []


def test_a_disk_that_fills_up_meanwhile_leaves_nothing(
    tiny: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "room_for", lambda *_: None)  # somebody else filled it after we had looked
    with pytest.raises(PrepareError, match=r"No space left on device\): free some space"):
        prepare(tiny, small / "new", dtype=None)
    assert list(small.iterdir()) == []


def test_killed_midway_nothing_looks_like_a_model_and_the_next_run_cleans_up(tmp_path: Path) -> None:
    source = make_model(tmp_path / "model", size="wide")
    out = tmp_path / "new"
    command = [sys.executable, "-m", "runtime.weights.cli", "prepare", str(source), str(out), "--shard-gib", "0.02"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob(".new.partial-*/*.safetensors")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
    psutil.wait_procs(children, timeout=60)
    assert not any(child.is_running() for child in children), "the converter is on a leash"
    assert not out.exists()
    (left,) = [path for path in tmp_path.iterdir() if path.name not in {"model"}]
    assert left.name.startswith(".new.partial-")
    assert not (left / LIST_NAME).exists(), "the mark of completion is written last"
    made = prepare(source, out, dtype=None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "new"]
    assert made.bytes > 2**27


@pytest.mark.prove
def test_two_runs_at_once_make_one_model(tiny: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "runtime.weights.cli", "prepare", str(tiny), str(tmp_path / "new")]
    with contextlib.ExitStack() as stack:
        both = [stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True)) for _ in range(2)]
        said = [process.communicate(timeout=120)[1] for process in both]
    assert sorted(process.returncode for process in both) in ([0, 1], [0, 0]), said
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert examine(tmp_path / "new", Needs(list_required=True)) == ()


@pytest.mark.prove
def test_vllm_on_a_cpu_saves_too_little_and_is_refused(tiny: Path, tmp_path: Path) -> None:
    """It packs the weights of linear layers away as it loads; what it then saves would be a model of random weights."""
    command = [sys.executable, "-m", "runtime.weights.cli", "prepare", str(tiny), str(tmp_path / "new")]
    done = subprocess.run([*command, "--tensor-parallel", "1"], capture_output=True, text=True, check=False)
    assert (done.returncode, "it packs the weights as it loads them" in done.stderr) == (1, True), done.stderr
    assert list(tmp_path.iterdir()) == []
