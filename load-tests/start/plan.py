"""What one run does: which models, how often, with which arguments. The same for every subject."""

from dataclasses import dataclass
from typing import Literal

Subject = Literal["stock-cold", "stock-warm", "bundle", "fork"]
SUBJECTS: tuple[Subject, ...] = ("stock-cold", "stock-warm", "bundle", "fork")
MEANING: dict[Subject, str] = {
    "stock-cold": "vllm serve with empty caches",
    "stock-warm": "vllm serve with the caches of its last start",
    "bundle": "a fresh host in an empty directory, with a bundle in a store",
    "fork": "one more engine on that host, a service it has never started",
}
ARGS = ("--max-model-len=512", "--max-num-seqs=8", "--dtype=bfloat16")
PROMPT = "import os"
TOKENS = 16
"""Greedy tokens that all subjects must agree on."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`models`: sizes of demo.models. `dropped`: those whose files are put out of the page cache before each start."""

    models: tuple[str, ...] = ("tiny", "big")
    dropped: tuple[str, ...] = ("big",)
    rounds: int = 3
    seed: int = 1


QUICK = Plan(models=("tiny",), dropped=(), rounds=1)
