"""Stock vLLM with some arguments: its start, what its log says, and how fast it answers."""

import socket
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from gpu.lines import Figures
from gpu.machine import cuda_environment
from gpu.plan import ARGS
from start.asked import first_token, healthy, wait_for
from start.measured import BenchFailed
from start.processes import python, running

NAME = "m"
TOKENS, TIMES = 64, 3
PROMPT_TOKENS = 16


def measure(home: Path, model: Path, args: Sequence[str], batches: Sequence[int]) -> dict[str, Any]:
    """A start in an empty cache directory, and tokens a second at each batch. Raises BenchFailed."""
    port, figures = _free_port(), Figures()
    url, log = f"http://127.0.0.1:{port}", home / "vllm.log"
    argv = [python(), "-m", "vllm.entrypoints.cli.main", "serve", str(model), "--host=127.0.0.1", f"--port={port}"]
    argv += [f"--served-model-name={NAME}", *ARGS, *args]
    env = cuda_environment(
        VLLM_CACHE_ROOT=str(home / "cache"), TRITON_CACHE_DIR=str(home / "triton"), VLLM_NO_USAGE_STATS="1",
        DO_NOT_TRACK="1", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", VLLM_HOST_IP="127.0.0.1",
    )  # fmt: skip
    begun = time.monotonic()
    with running(argv, env=env, log=log, cwd=home, on_line=lambda _, text: figures.take(text)) as child:
        wait_for("vLLM", lambda: healthy(url), lambda: child.poll() is None, str(log))
        start_s = first_token(url, NAME) - begun
        rates = {str(batch): round(rate(url, NAME, batch), 1) for batch in batches}
    return {"start_s": round(start_s, 2), **figures.told(), "rates": rates}


def rate(url: str, name: str, batch: int) -> float:
    """Tokens a second of so many answers at a time; the first time is not counted."""
    return batch * TOKENS / median([_answered_s(url, name, batch) for _ in range(TIMES + 1)][1:])


def _answered_s(url: str, name: str, batch: int) -> float:
    prompts = [[1 + (number + place) % 16 for place in range(PROMPT_TOKENS)] for number in range(batch)]
    body = {"model": name, "prompt": prompts, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
    begun = time.monotonic()
    answer = httpx.post(f"{url}/v1/completions", json=body, timeout=120.0, trust_env=False)
    took = time.monotonic() - begun
    if answer.status_code != 200:
        raise BenchFailed(f"an answer got {answer.status_code}: {answer.text[:300]}")
    return took


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
