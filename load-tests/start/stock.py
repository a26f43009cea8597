"""vLLM as it comes: `vllm serve` in a cache directory that is empty, or that its last start has filled."""

import shutil
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

from runtime.engine.cpu import Cpu
from runtime.engine.lines import read_line
from runtime.engine.stages import StageTracker
from start.asked import first_token, greedy, healthy, wait_for
from start.measured import Start
from start.plan import ARGS, Subject
from start.processes import drop_from_page_cache, environment, python, running


class Stock:
    """One model's stock starts, in one cache directory."""

    def __init__(self, root: Path, model: Path, name: str, *, dropped: bool) -> None:
        self._root, self._model, self._name, self._dropped = root, model, name, dropped

    def start(self, subject: Subject, number: int) -> Start:
        """One start, `stock-cold` or `stock-warm`."""
        cache = self._root / "stock-cache"
        if subject == "stock-cold":
            shutil.rmtree(cache, ignore_errors=True)
        if self._dropped:
            drop_from_page_cache(self._model)
        port, tracker = _free_port(), StageTracker(Cpu())
        url, log = f"http://127.0.0.1:{port}", self._root / "logs" / f"{subject}-{number}.log"
        argv = [python(), "-m", "vllm.entrypoints.cli.main", "serve", str(self._model), "--host=127.0.0.1"]
        argv += [f"--port={port}", "--served-model-name=m", *ARGS]
        env = environment(
            VLLM_CACHE_ROOT=str(cache), VLLM_CPU_KVCACHE_SPACE="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1",
            HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", VLLM_HOST_IP="127.0.0.1",
        )  # fmt: skip

        def take(at: float, text: str) -> None:
            tracker.line(read_line(datetime.fromtimestamp(at, UTC), text))

        begun = time.monotonic()
        with running(argv, env=env, log=log, cwd=self._root / "stock-run", on_line=take) as child:
            wait_for(f"{subject} {self._name}", lambda: healthy(url), lambda: child.poll() is None, str(log))
            took = first_token(url, "m") - begun
            tokens = greedy(url, "m")
        stages = {stage.stage.value: stage.elapsed_ms / 1000 for stage in tracker.stages}
        return Start(subject, self._name, number, took, tokens, stages, compile_s=stages.get("compile"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
