"""What the structural digest rests on, on real vLLM: a compiled artifact of one model serves another of its shape."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo.models import make_model
from runtime.cache.inputs import fingerprint_of
from runtime.contract import EngineSpec

PLUGIN = """
import functools
import torch

def register():
    load = torch.compiler.load_compiled_function

    def mended(*args, **kwargs):
        loaded = load(*args, **kwargs)
        plain = loaded._artifacts.compiled_fn
        if not hasattr(plain, "finalize_loading"):
            loaded._artifacts.compiled_fn = functools.wraps(plain)(lambda *a, **k: plain(*a, **k))
            loaded._artifacts.compiled_fn.finalize_loading = lambda config: None
        return loaded

    torch.compiler.load_compiled_function = mended
"""
"""On a CPU vLLM 0.32 saves an artifact and cannot load it: it calls a method that the plain function lacks."""

ASK = """
import sys
if __name__ == "__main__":
    from vllm import LLM, SamplingParams
    llm = LLM("./model", max_model_len=512, max_num_seqs=int(sys.argv[1]), dtype="bfloat16")
    asked = llm.generate(["Pilotlight asks", "The license"], SamplingParams(temperature=0, max_tokens=24))
    print("ANSWER", [list(each.outputs[0].token_ids) for each in asked])
"""

pytestmark = pytest.mark.prove


@dataclass(frozen=True)
class Shown:
    answer: str
    artifact: str  # vLLM's own key: the directory that it saved to or loaded from
    loaded: bool


def serve(place: Path, model: Path, cache: Path, max_num_seqs: int = 8) -> Shown:
    """Run `model` as `./model` in a new directory; `cache` is the cache root, which is written to."""
    run = place / f"run{len(list(place.glob('run*')))}"
    (run / "plug" / "mended-1.dist-info").mkdir(parents=True)
    (run / "plug" / "mended.py").write_text(PLUGIN)
    (run / "plug" / "mended-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: mended\nVersion: 1\n")
    (run / "plug" / "mended-1.dist-info" / "entry_points.txt").write_text(
        "[vllm.general_plugins]\nmended = mended:register\n"
    )
    (run / "ask.py").write_text(ASK)
    (run / "model").symlink_to(model)
    environ = {k: v for k, v in os.environ.items() if not k.startswith("VLLM_")}
    ours = {"PYTHONPATH": str(run / "plug"), "VLLM_CACHE_ROOT": str(cache), "VLLM_CPU_KVCACHE_SPACE": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "ask.py", str(max_num_seqs)],
        cwd=run,
        env={**environ, **ours, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    answer = re.search(r"ANSWER (.*)", done.stdout)
    artifact = re.search(r"torch_aot_compile/([0-9a-f]{64})", done.stdout)
    assert answer, done.stdout[-3000:]
    assert artifact, done.stdout[-3000:]
    return Shown(answer[1], artifact[1], "Directly load AOT compilation" in done.stdout)


def key(model: Path, *args: str) -> str:
    spec = EngineSpec(service="test/one", served_names=("one",), model=str(model), args=args)
    return fingerprint_of(spec, environ=os.environ).key


def test_a_fine_tune_runs_on_the_other_ones_artifact_and_answers_for_itself(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    make_model(one, seed=1, size="tiny")
    make_model(two, seed=2, size="tiny")
    assert key(one) == key(two)

    made = serve(tmp_path, one, tmp_path / "cache")
    shutil.copytree(tmp_path / "cache", tmp_path / "restored")
    shared = serve(tmp_path, two, tmp_path / "restored")
    alone = serve(tmp_path, two, tmp_path / "empty")
    print(f"compiled for one: {made}\nanother on it:    {shared}\nanother by itself: {alone}")

    assert (made.loaded, shared.loaded, alone.loaded) == (False, True, False)
    assert made.artifact == shared.artifact == alone.artifact
    assert shared.answer == alone.answer
    assert shared.answer != made.answer


def test_another_key_is_another_artifact(tmp_path: Path) -> None:
    model = tmp_path / "one"
    make_model(model, seed=1, size="tiny")
    assert key(model, "--max-num-seqs=8") != key(model, "--max-num-seqs=4")

    made = serve(tmp_path, model, tmp_path / "cache", max_num_seqs=8)
    other = serve(tmp_path, model, tmp_path / "cache", max_num_seqs=4)
    print(f"8 sequences: {made}\n4 sequences: {other}")
    assert not other.loaded
    assert made.artifact != other.artifact
