"""The command `pilotlight weights bench`: what is measured, on what, and where the result goes."""

import asyncio
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.console import Console

from runtime.weights.bench import report
from runtime.weights.bench.bound import Bound, bucket_bound, files_bound
from runtime.weights.bench.process import BenchError
from runtime.weights.bench.run import Bench, Outcome
from runtime.weights.bench.run import run as run_bench
from runtime.weights.digest import DIGESTS
from runtime.weights.finding import gib
from runtime.weights.here import here
from runtime.weights.integrity import check_model, is_url
from runtime.weights.memory import read_memory
from runtime.weights.needs import Needs
from runtime.weights.place import Place, read_place
from runtime.weights.plan import Wanted, attempts, streamer_memory_bytes
from runtime.weights.remote import RemoteFacts, check_remote
from runtime.weights.safetensors import largest_tensor
from runtime.weights.weight_files import weight_files
from runtime.weights.winners import WINNERS, Measured, Winners, node_name


def bench(
    model: str,
    *,
    state: Path,
    names: tuple[str, ...],
    rounds: int,
    ranks: int,
    cold: bool,
    timeout_s: float,
    remember: bool,
    as_json: bool,
) -> None:
    """Measure, print, remember. Interrupted, it prints what it has and ends with 130."""
    target = _target(model, state)
    memory = read_memory()
    remote = target.remote is not None
    wanted = Wanted(
        here=here(model, os.environ),
        directory=None if remote else model,
        url=model if remote else None,
        args=(),
        env=dict(os.environ),
        memory=memory,
        weight_bytes=target.bytes,
        ranks=ranks,
        largest_tensor_bytes=target.largest,
    )
    work = Bench(
        model=model,
        files=target.files,
        here=wanted.here,
        rounds=rounds,
        cold=cold,
        ranks=ranks,
        names=names,
        env=_store_env(wanted),
        options={"memory_limit": streamer_memory_bytes(wanted, remote=remote, distributed=False)},
        timeout_s=timeout_s,
    )
    need = target.bytes + target.largest
    if memory.free_bytes is not None and need > memory.free_bytes:
        raise BenchError(f"a load takes {gib(need)} of memory, {gib(memory.free_bytes)} is free: measure elsewhere")
    outcome = Outcome()
    tell = _progress()
    interrupted = False
    try:
        tell("the bound of the storage")
        outcome.bound = _bound(model, target, cold=cold)
        run_bench(work, outcome, tell)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    except KeyboardInterrupt:
        interrupted = True
    tell("")
    if as_json:
        typer.echo(json.dumps(report.as_json(work, outcome, target.place, memory)))
    else:
        report.show(Console(width=max(100, shutil.get_terminal_size().columns)), work, outcome, target.place, memory)
    if interrupted:
        raise KeyboardInterrupt
    _remember(state, target, work, outcome, remember=remember)
    if not any(row.median_s is not None for row in outcome.rows()):
        raise BenchError("no loader came through: see the table")


@dataclass(frozen=True, slots=True)
class _Target:
    """What is measured. `key`: by what the result is remembered."""

    key: str
    files: tuple[Path, ...]
    bytes: int
    largest: int
    place: Place | None
    remote: RemoteFacts | None


def _target(model: str, state: Path) -> _Target:
    if is_url(model):
        found = asyncio.run(check_remote(model, Needs(tokenizer=False), os.environ))
        return _Target(model, (), found.weight_bytes, found.largest_tensor_bytes, None, found)
    directory = Path(model)
    needs = Needs(tokenizer=False, pickle=("*",), load_format=_format(directory))
    facts = check_model(directory, needs, state / DIGESTS, threading.Event())
    size = facts.weight_bytes or 0
    largest = largest_tensor(facts.weights)
    return _Target(facts.digest or model, facts.weights, size, largest, read_place(directory), None)


def _format(directory: Path) -> str:
    return "tensorizer" if directory.is_dir() and not weight_files(directory, "auto").files else "auto"


def _bound(model: str, target: _Target, *, cold: bool) -> Bound:
    if target.remote is not None:
        return asyncio.run(bucket_bound(model, os.environ, target.remote.shards))
    return files_bound(target.files, cold=cold)


def _store_env(wanted: Wanted) -> dict[str, str]:
    """As the plan would set it for a start."""
    return {name: value for each in attempts(wanted) for name, value in each.env.items() if each.source == "object"}


def _remember(state: Path, target: _Target, work: Bench, outcome: Outcome, *, remember: bool) -> None:
    if not remember or work.ranks != 1:
        return
    seconds = {row.name: row.seconds for row in outcome.rows() if row.median_s is not None}
    measured = Measured(datetime.now(UTC), outcome.versions, work.cold, target.bytes, seconds)
    try:
        Winners(state / WINNERS).remember(node_name(os.environ), target.key, measured)
    except OSError as error:
        typer.echo(f"not remembered: {error}", err=True)


def _progress() -> Callable[[str], None]:
    """One line that is written over on a terminal; nothing where nobody looks."""
    if not sys.stderr.isatty():
        return lambda _: None

    def tell(text: str) -> None:
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()

    return tell
