"""`build`: compile every variant of a model before any user's start has to, and publish what was proven."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

import typer

from runtime.cache.cli.building import Outcome, Workshop
from runtime.cache.cli.building import build as build_one
from runtime.cache.cli.failures import say, visible
from runtime.cache.cli.interrupt import run
from runtime.cache.cli.matrix import Variant, read_matrix
from runtime.cache.cli.places import OwnShelf, opened, scratch
from runtime.cache.cli.terminal import Line, seconds, size, table
from runtime.cache.cli.wanted import spec_of
from runtime.cache.locks_open import open_lock
from runtime.cache.shelf import Shelf
from runtime.cache.signing import SigningKey
from runtime.cache.trust import TrustPolicy
from runtime.contract import EngineSpec
from runtime.engine.fork.pool import ForkPool
from runtime.engine.launch import Launcher
from runtime.engine.spans import SpanReceiver


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says."""

    model: str
    args: tuple[str, ...]
    env: dict[str, str]
    platform: str
    matrix: Path | None
    store: str | None
    lock: str | None
    work: Path | None
    force: bool
    proof: bool
    fork: bool
    timeout_s: float
    command: tuple[str, ...] | None = None

    def variants(self) -> list[tuple[Variant, EngineSpec]]:
        """Each variant and its engine. Raises Refused before any engine is started, whichever of them is wrong."""
        read = read_matrix(self.matrix) if self.matrix is not None else (Variant(" ".join(self.args) or "as given"),)
        return [
            (
                each,
                spec_of(
                    self.model,
                    (*self.args, *each.args),
                    {**self.env, **each.env},
                    self.platform,
                    timeout_s=self.timeout_s,
                ),
            )
            for each in read
        ]


def build(asked: Asked, *, own: OwnShelf, signer: SigningKey, trust: TrustPolicy, as_json: bool) -> bool:
    """Build all variants, one after another; whether each has its bundle now."""
    variants = asked.variants()
    if asked.store is None:
        own.make_store()
    url = asked.store or own.store_url
    outcomes = run(_all(asked, variants, url, own, signer, trust.trusting(signer.public, "this build")))
    if as_json:
        typer.echo(json.dumps({"store": url, "variants": [outcome.as_json() for outcome in outcomes]}))
    else:
        for text in _report(outcomes):
            typer.echo(text)
    return all(outcome.result != "failed" for outcome in outcomes)


async def _all(
    asked: Asked,
    variants: Sequence[tuple[Variant, EngineSpec]],
    url: str,
    own: OwnShelf,
    signer: SigningKey,
    trust: TrustPolicy,
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    async with contextlib.AsyncExitStack() as stack:
        work = stack.enter_context(scratch(asked.work))
        line = stack.enter_context(Line())
        store = await stack.enter_async_context(opened(url))
        shelf = Shelf(work / "shelf", clock=_now, version=version("pilotlight"), signer=signer)
        stack.push_async_callback(shelf.close)
        forks = ForkPool() if asked.fork and asked.command is None else None
        if forks is not None:
            stack.push_async_callback(forks.close)
        spans = SpanReceiver()
        await spans.start()
        stack.push_async_callback(spans.close)
        shop = Workshop(
            work=work,
            logs=own.state.expanduser().absolute() / "logs" / "cache-build",
            launcher=Launcher(asked.command, forks=forks, shelf=shelf),
            spans=spans,
            store=store,
            lock=partial(open_lock, asked.lock or url),
            trust=trust,
            line=line,
            clock=_now,
            force=asked.force,
            proof=asked.proof,
            wait_s=asked.timeout_s,
        )
        for number, (variant, spec) in enumerate(variants, start=1):
            outcome = await build_one(shop, variant, spec)
            outcomes.append(outcome)
            line.clear()
            say(f"[{number}/{len(variants)}] {_told(outcome)}")
    return outcomes


def _now() -> datetime:
    return datetime.now(UTC)


def _told(outcome: Outcome) -> str:
    """One variant, as soon as it is over."""
    head = f"{outcome.variant}: {outcome.result} in {seconds(outcome.seconds)}"
    return f"{head}: {outcome.why}" if outcome.why else head


def _report(outcomes: Sequence[Outcome]) -> list[str]:
    head = ("variant", "key", "result", "verdict", "compile", "size", "took")
    rows = [
        (
            visible(each.variant),
            (each.key or "–")[:12],
            each.result,
            each.verdict or "–",
            seconds(each.compile_s),
            size(each.size_bytes),
            seconds(each.seconds),
        )
        for each in outcomes
    ]
    return table(head, rows)
