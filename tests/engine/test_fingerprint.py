"""The fingerprint against the installed vLLM: what it hashes now, and that a key shared means an artifact shared."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest

from runtime.cache.compile_inputs import TABLE

ROOT = Path(__file__).resolve().parents[2]
MEND = "run `python -m scripts.compile_inputs`, read the difference, and say in the commit what it means"


@cache
def asked(form: Literal["quick", "all"]) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.compile_inputs", "--print", form],
        cwd=ROOT,
        env={**{k: v for k, v in os.environ.items() if not k.startswith("VLLM_")}, "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        timeout=2400,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def learned(form: Literal["quick", "all"]) -> dict[str, Any]:
    code, printed, said = asked(form)
    assert code == 0, said[-2000:]
    table: dict[str, Any] = json.loads(printed)
    return table


def drift(section: str, form: Literal["quick", "all"]) -> list[str]:
    """One line for each entry of `section` that the installed vLLM does not bear out."""
    known = json.loads(TABLE.read_text())[section]
    now = learned(form)[section]
    lines = [f"{name}: new in this vLLM" for name in sorted(now.keys() - known.keys())]
    if form == "all" or section != "model":  # of the model's files the quick form looks at some
        lines += [f"{name}: gone from this vLLM" for name in sorted(known.keys() - now.keys())]
    for name in sorted(now.keys() & known.keys()):
        if isinstance(now[name], str):
            lines += [f"{name}: {known[name]} became {now[name]}"] if known[name] != now[name] else []
            continue
        # The quick form says nothing of what it did not probe.
        changed = {key for key, value in now[name].items() if known[name].get(key) != value}
        lines += [f"{name}: {key} {known[name].get(key)!r} became {now[name][key]!r}" for key in sorted(changed)]
    return lines


@pytest.mark.parametrize("section", ["arguments", "environment", "model", "surroundings", "spellings"])
def test_vllm_hashes_what_the_table_says(section: str) -> None:
    found = drift(section, "quick")
    assert not found, "\n".join([*found, MEND])


@pytest.mark.prove
@pytest.mark.parametrize("section", ["arguments", "environment", "model", "surroundings", "spellings"])
def test_vllm_hashes_what_the_whole_table_says(section: str) -> None:
    found = drift(section, "all")
    assert not found, "\n".join([*found, MEND])


def test_two_pods_have_one_key_in_vllm() -> None:
    assert set(learned("quick")["surroundings"].values()) == {"same"}
