"""A start's fingerprint: two pods that run the same share it, and each thing that counts changes it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from demo.models import make_model
from runtime.cache.explain import explain
from runtime.cache.fingerprint import Fingerprint, difference
from runtime.cache.inputs import fingerprint_of
from runtime.cache.machine import Machine
from runtime.contract import EngineSpec
from runtime.engine.argv import Tracing, environment
from runtime.engine.dirs import EngineDirs

MACHINE = Machine("x86_64", "avx2", "8 on 4 cores")
SOFTWARE = {"wheel.vllm": "0.32.0 sha256:aa", "libc": "glibc 2.36"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny"
    make_model(path, seed=1, size="tiny")
    return path


def spec(model: Path | str, *args: str, **changed: Any) -> EngineSpec:
    return EngineSpec(service="test/one", served_names=("one",), model=str(model), args=args, **changed)


def of(model: Path | str, *args: str, machine: Machine = MACHINE, software: Any = None, **changed: Any) -> Fingerprint:
    return fingerprint_of(spec(model, *args, **changed), environ={}, machine=machine, software=software or SOFTWARE)


def test_path_service_and_served_names_are_no_inputs(model: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(model)
    other = EngineSpec(service="other/two", served_names=("a", "b"), model=str(tmp_path / "link"), start_timeout_s=7)
    assert fingerprint_of(other, environ={}, machine=MACHINE, software=SOFTWARE).key == of(model).key


def test_two_fine_tunes_share_a_key(model: Path, tmp_path: Path) -> None:
    make_model(tmp_path / "other", seed=9, size="tiny")
    assert of(model).key == of(tmp_path / "other").key


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"args": ("--max-num-seqs", "16")}, "argument.max_num_seqs"),
        ({"args": ("--from-tomorrow", "16")}, "argument.--from-tomorrow"),
        ({"env": {"VLLM_USE_AOT_COMPILE": "0"}}, "variable.VLLM_USE_AOT_COMPILE"),
        ({"env": {"FROM_TOMORROW": "0"}}, "variable.FROM_TOMORROW"),
        ({"machine": Machine("x86_64", "avx512f", "8 on 4 cores")}, "machine.instructions"),
        ({"machine": Machine("x86_64", "avx2", "4 on 4 cores")}, "machine.processors"),
        ({"machine": Machine("aarch64", "avx2", "8 on 4 cores")}, "machine.architecture"),
        ({"machine": Machine("x86_64", "avx2", "8 on 4 cores", image="sha256:1")}, "image"),
        ({"software": {**SOFTWARE, "wheel.vllm": "0.32.0 sha256:bb"}}, "wheel.vllm"),
        ({"software": {**SOFTWARE, "wheel.tilelang": "1 sha256:bb"}}, "wheel.tilelang"),
    ],
)
def test_each_change_is_named(model: Path, changed: dict[str, Any], name: str) -> None:
    args = changed.pop("args", ())
    found = difference(of(model), of(model, *args, **changed))
    assert [each.name for each in found] == [name]


def test_the_platform_counts(model: Path) -> None:
    assert "platform" in {each.name for each in difference(of(model), of(model, platform="cuda"))}


def test_a_url_counts_and_nothing_is_fetched() -> None:
    assert of("s3://bucket.invalid/a").inputs["model.url"] == "s3://bucket.invalid/a"
    assert of("s3://bucket.invalid/a").key != of("s3://bucket.invalid/b").key
    assert of("s3://bucket.invalid/a", "--revision", "x").key != of("s3://bucket.invalid/a").key


def test_a_draft_model_counts_by_its_structure(model: Path, tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    make_model(draft, seed=3, size="tiny")
    args = ("--speculative-config", json.dumps({"model": str(draft), "num_speculative_tokens": 2}))
    before = of(model, *args)
    shutil.rmtree(draft)
    make_model(draft, seed=4, size="tiny")
    assert of(model, *args) == before
    config = draft / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "rope_theta": 3.0}))
    assert [each.name for each in difference(before, of(model, *args))] == ["argument.speculative_config.files"]


def test_a_file_named_by_an_argument_counts_by_content(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.json"
    file.write_text("1")
    before = of(model, "--from-tomorrow", str(file))
    file.write_text("2")
    assert of(model, "--from-tomorrow", str(file)).key != before.key


def test_frozen_weights_bring_their_content_in(model: Path, tmp_path: Path) -> None:
    make_model(tmp_path / "other", seed=9, size="tiny")
    frozen: dict[str, Any] = {"env": {"TORCHINDUCTOR_FREEZING": "1"}}
    found = difference(of(model, **frozen), of(tmp_path / "other", **frozen))
    assert [each.name for each in found] == ["model.weights"]


def pod(root: Path, model: Path, number: int) -> Fingerprint:
    """As a host of that number would start the engine: its own directories, addresses, trace, devices and identity."""
    parent = {
        "PATH": "/usr/bin",
        "HOME": str(root / f"home{number}"),
        "HOSTNAME": f"chat-{number}",
        "POD_IP": f"10.0.0.{number}",
        "TMPDIR": str(root / f"tmp{number}"),
        "NVIDIA_VISIBLE_DEVICES": f"GPU-{number}",
        "CUDA_VISIBLE_DEVICES": str(number),
        "LC_ALL": f"C{number}",
    }
    tracing = Tracing(endpoint=f"http://127.0.0.1:{4000 + number}", headers=f"a={number}", traceparent=f"00-{number}")
    wanted = spec(model, "--max-num-seqs=8", env={"AWS_SECRET_ACCESS_KEY": f"s{number}", "HF_HOME": f"/cache/{number}"})
    dirs = EngineDirs(cache=root / f"c{number}", log=root / f"l{number}", run=root / f"r{number}")
    environ = environment(wanted, dirs, parent, 100 + number, tracing)
    return fingerprint_of(wanted, environ=environ, machine=MACHINE, software=SOFTWARE)


def test_two_pods_share_a_key_whatever_their_surroundings(model: Path, tmp_path: Path) -> None:
    one, two = pod(tmp_path, model, 1), pod(tmp_path, model, 2)
    assert explain(one, two) == f"nothing differs: both have key {one.key}"
    assert not [name for name, value in one.inputs.items() if "s1" in value and name.startswith("variable")]


def test_the_launchers_arguments_and_environment_take_the_place_of_the_specs(model: Path) -> None:
    wanted = spec(model, "--max-num-seqs=8", env={"VLLM_PLUGINS": "theirs"})
    made = fingerprint_of(
        wanted,
        environ={"VLLM_PLUGINS": "theirs,pilotlight"},
        args=("--max-num-seqs=16", "--allowed-media-domains", "none.invalid"),
        machine=MACHINE,
        software=SOFTWARE,
    )
    assert made.inputs["variable.VLLM_PLUGINS"] == "theirs,pilotlight"
    assert {name for name in made.inputs if name.startswith("argument")} == {"argument.max_num_seqs"}
    assert made.inputs["argument.max_num_seqs"] == "16"


def test_no_credential_is_written_down(model: Path) -> None:
    secret = "hunter2-hunter2"
    made = of(
        model, "--hf-token", secret, "--api-key", secret, env={"HF_TOKEN": secret, "AWS_SECRET_ACCESS_KEY": secret}
    )
    assert secret not in made.to_json()


def test_it_imports_neither_torch_nor_vllm(model: Path) -> None:
    asked = (
        "import sys, time; from runtime.contract import EngineSpec; from runtime.cache.inputs import fingerprint_of;"
        f"spec = EngineSpec(service='a/b', served_names=('b',), model={str(model)!r});"
        "fingerprint_of(spec, environ={}); begun = time.perf_counter(); made = fingerprint_of(spec, environ={});"
        "print(f'{(time.perf_counter() - begun) * 1000:.1f} ms warm, {len(made.inputs)} inputs', file=sys.stderr);"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'vllm', 'transformers', 'numpy'}))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    print(done.stderr)
    assert done.stdout == "[]\n"
