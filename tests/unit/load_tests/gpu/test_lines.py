"""Log lines and records → figures, their table and their last line. The CUDA lines are written, not recorded."""

import json
from pathlib import Path
from typing import Any

from gpu.lines import Figures
from gpu.plan import steps
from gpu.report import last_line, table
from gpu.results import Result
from gpu.shared import told

LOG = Path(__file__).parents[3] / "data" / "starts" / "cuda_written.log"


def figures_of(text: str) -> Figures:
    figures = Figures()
    for line in text.splitlines():
        figures.take(line)
    return figures


def test_a_start_that_compiles() -> None:
    figures = figures_of(LOG.read_text())
    assert figures == Figures(capture_s=5.0, graph_gib=0.7, graphs=67, compile_s=15.0, init_s=28.5, kv_tokens=800_000)


def test_both_modes_count_and_a_bar_only_once() -> None:
    """A progress bar stands in one line as it moves, its states told apart by carriage returns."""
    bar = "Capturing CUDA graphs ({}): 0%| | 0/{n} [?]\rCapturing CUDA graphs ({}):  50%| | 1/{n}\r"
    bar += "Capturing CUDA graphs ({}): 100%|#| {n}/{n} [00:04<00:00]"
    piecewise, full = (bar.replace("{}", mode) for mode in ("mixed prefill-decode, PIECEWISE", "decode, FULL"))
    assert figures_of(f"{piecewise.replace('{n}', '51')}\n{full.replace('{n}', '35')}".replace("\r", " ")).graphs == 86


def test_a_start_that_loads_is_told() -> None:
    assert figures_of(
        "(EngineCore pid=1) INFO … Directly load the compiled graph(s) for compile range (1, 8192)"
    ).loaded


def test_eager_captures_nothing() -> None:
    figures = figures_of("(EngineCore pid=20) INFO … init engine (profile, create kv cache, warmup model) took 3.10 s")
    assert (figures.capture_s, figures.graphs, figures.init_s) == (None, 0, 3.1)


RECORD: dict[str, Any] = {
    "cache": {"verdict": "recompiled", "evidence": "new: …", "compile_s": 9.0},
    "forked": False,
    "kind": "cached-node",
    "spawned_because": "CUDA was begun",
}


def test_a_recompiled_bundle_and_a_spawned_engine_are_told_as_such() -> None:
    figures = told({"built": 60.0, "restored": 30.0, "fork": 20.0}, RECORD, RECORD, identical=True)
    assert (figures["verdict"], figures["forked"], figures["spawned_because"]) == (
        "recompiled", False, "CUDA was begun",
    )  # fmt: skip
    assert figures["restored_s"] == 30.0


OWN = {
    "start_s": 60.0,
    "capture_s": 10.0,
    "graph_gib": 1.0,
    "graphs": 86,
    "init_s": 30.0,
    "rates": {"1": 200.0, "8": 900.0},
}
OURS = {"start_s": 54.0, "capture_s": 2.0, "graph_gib": 0.5, "graphs": 10, "init_s": 22.0, "rates": {"1": 200.0}}
RESULTS = (
    Result("sizes-vllm", "s", 70.0, OWN),
    Result("sizes-ours", "s", 60.0, OURS),
    Result("bundle-and-fork", "s", 90.0, {"verdict": "used", "forked": True, "identical": True}),
    Result("eager", "s", 40.0, {}, "eager: not done after 40 s"),
)


def test_the_last_line() -> None:
    assert json.loads(last_line(RESULTS)) == {
        "bench": "gpu",
        "beside_own": {
            "sizes-ours": {
                "start_s": 0.9, "init_s": 0.733, "capture_s": 0.2, "graphs": 0.116, "graph_gib": 0.5, "rate_1": 1.0,
            }
        },
        "verdict": "used",
        "forked": True,
        "identical": True,
        "failed": ["eager"],
    }  # fmt: skip


def test_the_table_tells_what_was_not_measured() -> None:
    shown = table(steps({1: 1000.0}), RESULTS)
    lines = {line.split("│")[1].strip(): line for line in shown.splitlines() if line.startswith("│")}
    assert "not measured" in lines["O1"]
    assert "not done after 40 s" in lines["eager"]
    assert "verdict used" in lines["bundle-and-fork"]
    assert "1: 200  8: 900" in lines["sizes-vllm"]
