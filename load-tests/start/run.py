"""One run: models made, bundles made, rounds of all subjects one after another."""

import os
import platform
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import cast

from demo.models import Size, make_model
from runtime.weights.integrity import Needs, prove_model
from start.findings import Findings
from start.measured import Start
from start.ours import Ours
from start.plan import Plan
from start.stock import Stock

Tell = Callable[[str], None]
ROOT = Path(__file__).resolve().parents[2]


async def digest_of(model: Path) -> str:
    """The digest of a model's content."""
    return str((await prove_model(str(model), Needs(), model.parent / "digests.json")).digest)


def play(plan: Plan, models: dict[str, Path], home: Path, tell: Tell) -> Iterator[Start]:
    """Every start of the run, as it is measured."""
    for name in plan.models:
        root, dropped = home / name, name in plan.dropped
        stock = Stock(root, models[name], name, dropped=dropped)
        ours = Ours(root, models[name], name, dropped=dropped)
        tell(f"{name}: making the bundle")
        ours.prepare()
        for number in range(1, plan.rounds + 1):
            yield _told(stock.start("stock-cold", number), plan, tell)
            yield _told(stock.start("stock-warm", number), plan, tell)
            for start in ours.pair(number):
                yield _told(start, plan, tell)


def _told(start: Start, plan: Plan, tell: Tell) -> Start:
    used = f", bundle {start.verdict}" if start.verdict else ""
    tell(f"{start.model} {start.subject} {start.round}/{plan.rounds}: first token {start.first_token_s:.2f} s{used}")
    return start


@contextmanager
def workplace() -> Iterator[Path]:
    """A directory for models, caches and logs, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="bench-start-") as home:
        yield Path(home)


def make_models(plan: Plan, home: Path, tell: Tell) -> dict[str, Path]:
    """Each model of the plan, made on the spot."""
    made = {}
    for name in plan.models:
        tell(f"making model {name}")
        made[name] = home / "models" / name
        make_model(made[name], seed=plan.seed, size=cast("Size", name))
    return made


def facts() -> dict[str, str]:
    """What the seconds were measured on."""
    cpu = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "")
    return {
        "cpu": cpu or platform.processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "platform": "cpu",
        "vllm": version("vllm"),
        "torch": version("torch"),
        "pilotlight": version("pilotlight"),
        "commit": _git("rev-parse", "--short", "HEAD") + ("+changes" if _git("status", "--porcelain") else ""),
        "load": f"{os.getloadavg()[0]:.2f}",
    }


def findings(starts: list[Start], plan: Plan, digests: dict[str, str], known: dict[str, str]) -> Findings:
    """The run, put together."""
    return Findings(tuple(starts), known, digests, tuple(name for name in plan.dropped if name in plan.models))


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
