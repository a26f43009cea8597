"""Writes runtime/cache/compile_inputs.json: which arguments and variables of vLLM change what it compiles.

    python -m scripts.compile_inputs            learn all from the installed vLLM and write the table (minutes)
    python -m scripts.compile_inputs --print quick|all     learn and print instead of writing

The table is what the fingerprint (runtime/cache/fingerprint.py) knows of vLLM, because the process that computes it
must not import vLLM (ten seconds). A test compares it with what the installed version says.

An argument is `no` input only if two independent witnesses agree: vLLM's source leaves the field of that name out of
its own key (scripts/compile_source.py), and real configurations with other values have the same key
(scripts/compile_probe.py). Anything else is an input: `yes` where a value was seen to change the key, `unproven` where
nothing was seen either way.
"""

import argparse
import importlib.metadata
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "runtime" / "cache" / "compile_inputs.json"

QUICK_ARGUMENTS = ("max_num_seqs", "seed", "shutdown_timeout")
"""Probed on real configurations in the quick form; of all others it compares names, spellings, defaults and source."""


def learn(quick: bool) -> dict[str, Any]:
    """The whole table, or its quick form, from the installed vLLM (imports it)."""
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_LOGGING_LEVEL="ERROR", VLLM_CPU_KVCACHE_SPACE="1")
    from scripts import compile_probe, compile_source  # noqa: PLC0415 - they import vLLM, after its environment is set

    spellings = compile_probe.spellings()
    with tempfile.TemporaryDirectory() as scratch:
        probe = compile_probe.Probe(Path(scratch))
        names = [name for name in spellings if not quick or name in QUICK_ARGUMENTS]
        probed = {name: probe.argument(name, spellings[name]) for name in names}
        environment = probe.environment(indirect=not quick)
        seen = {
            "model": probe.model_files(quick=quick),
            "surroundings": probe.surroundings(quick=quick),
            "spellings": probe.spellings(),
        }
    arguments = {}
    for name, spelling in spellings.items():
        left_out = compile_source.left_out(name, spelling["front"])
        verdict = _verdict(left_out, probed[name]) if name in probed else {}
        arguments[name] = {**{k: v for k, v in spelling.items() if k != "front"}, **verdict, "source": left_out}
    return {"vllm": _version(), "arguments": arguments, "environment": environment, **seen}


def _verdict(left_out: str, seen: str) -> dict[str, str]:
    if seen == "changed":
        return {"input": "yes"}
    if left_out and seen.startswith("same"):
        return {"input": "no"}
    return {"input": "unproven", "seen": seen}


def _version() -> str:
    for name in ("vllm-cpu", "vllm"):
        try:
            return importlib.metadata.version(name).split("+")[0]
        except importlib.metadata.PackageNotFoundError:
            continue
    raise SystemExit("compile_inputs: vLLM is not installed: run make setup")


def text(table: dict[str, Any]) -> str:
    """What the file holds: one argument or variable a line, so that a new version of vLLM reads as a diff."""
    sections = []
    for section in ("arguments", "environment", "model", "surroundings", "spellings"):
        lines = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(table[section].items())]
        sections.append(f"{json.dumps(section)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + f'"vllm": {json.dumps(table["vllm"])},\n' + ",\n".join(sections) + "\n}\n"


def main() -> int:
    """Write the table, or print it."""
    parser = argparse.ArgumentParser(prog="python -m scripts.compile_inputs")
    parser.add_argument("--print", choices=("quick", "all"), dest="printed")
    chosen = parser.parse_args()
    table = learn(quick=chosen.printed == "quick")
    if chosen.printed:
        sys.stdout.write(text(table))
    else:
        TARGET.write_text(text(table), encoding="utf-8")
        print(f"compile_inputs: {TARGET.relative_to(ROOT)} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
