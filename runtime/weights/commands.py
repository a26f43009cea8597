"""What the commands `pilotlight weights …` do; their options and help stand in cli.py."""

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from runtime.contract import FailureCause
from runtime.ready.fault import Fault
from runtime.weights.digest import DIGESTS
from runtime.weights.examine import examine
from runtime.weights.finding import Code, Finding, gib
from runtime.weights.here import here
from runtime.weights.integrity import ModelFacts, check_model, is_url
from runtime.weights.machine import read_facts
from runtime.weights.memory import read_memory
from runtime.weights.needs import Needs
from runtime.weights.place import read_place
from runtime.weights.plan import Attempt, Wanted, attempts
from runtime.weights.preflight import findings
from runtime.weights.prepare.run import Prepared, PrepareError, write_digests
from runtime.weights.prepare.run import prepare as run_prepare
from runtime.weights.remote import check_remote
from runtime.weights.safetensors import largest_tensor
from runtime.weights.versions import versions
from runtime.weights.winners import WINNERS, Winners, node_name


@dataclass(frozen=True, slots=True)
class Checked:
    """What `check` found. `compared`: files held against a digest that came with the model."""

    model: str
    digest: str | None
    weight_bytes: int | None
    files: int
    compared: int
    place: str | None
    findings: tuple[Finding, ...]

    @property
    def good(self) -> bool:
        """Whether a start would get its weights."""
        return not any(each.level == "error" for each in self.findings)

    def lines(self) -> list[str]:
        """For people."""
        size = "" if self.weight_bytes is None else f", {gib(self.weight_bytes)} in {self.files} weight files"
        compared = f", {self.compared} files as their digests say" if self.compared else ""
        head = f"{self.model}: {'whole' if self.digest else 'not whole'}{size}{compared}"
        more = [f"  {label} {text}" for label, text in (("digest", self.digest), ("place ", self.place)) if text]
        return [head, *more, *(f"  {each}" for each in self.findings)]

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {**asdict(self), "good": self.good}


def check(
    model: str,
    *,
    state: Path,
    args: tuple[str, ...],
    pickle: tuple[str, ...],
    dtype: str | None,
    list_required: bool,
    ranks: int,
) -> Checked:
    """All that can be said before a start. Only what is wrong with the command itself is raised."""
    needs = Needs.of(args, pickle=pickle, list_required=list_required)
    if is_url(model):
        return _check_url(model, needs, ranks)
    directory = Path(model)
    amiss = list(examine(directory, needs, dtype)) if directory.is_dir() else []
    facts = ModelFacts(None, None)
    try:
        facts = check_model(directory, needs, state / DIGESTS, threading.Event())
    except Fault as fault:
        said = str(fault)
        if not any(each.level == "error" and str(each).endswith(said) for each in amiss):
            amiss.insert(0, _of(fault))
    if not directory.is_dir():
        return Checked(model, None, None, 0, 0, None, tuple(amiss))
    machine = read_facts(directory, facts.weight_bytes, largest_tensor(facts.weights), ranks, os.environ)
    return Checked(
        model,
        facts.digest,
        facts.weight_bytes,
        len(facts.weights),
        facts.compared,
        str(machine.weights),
        _sorted((*amiss, *findings(machine))),
    )


def _check_url(model: str, needs: Needs, ranks: int) -> Checked:
    try:
        found = asyncio.run(check_remote(model, needs, os.environ))
    except Fault as fault:
        return Checked(model, None, None, 0, 0, None, (_of(fault),))
    machine = read_facts(None, found.weight_bytes, found.largest_tensor_bytes, ranks, os.environ)
    return Checked(model, found.stamp, found.weight_bytes, len(found.shards), 0, None, findings(machine))


def _of(fault: Fault) -> Finding:
    message, _, fix = str(fault).rpartition(": ")
    code = Code.UNREACHABLE if fault.cause is FailureCause.MODEL_MISSING else Code.INCOMPLETE
    return Finding(code, "error", message, fix)


def _sorted(found: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return tuple(sorted(found, key=lambda each: ("error", "warning", "note").index(each.level)))


@dataclass(frozen=True, slots=True)
class Planned:
    """The attempts, in order."""

    attempts: tuple[Attempt, ...]

    def lines(self) -> list[str]:
        """For people."""
        found = []
        for number, each in enumerate(self.attempts, start=1):
            found.append(f"{number}. {each.loader} from {each.source}: {each.model} ({each.why})")
            found += [f"     {arg}" for arg in each.args]
            found += [f"     {name}={value}" for name, value in sorted(each.env.items())]
        return found

    def as_json(self) -> list[dict[str, object]]:
        """For programs."""
        return [asdict(each) for each in self.attempts]


def plan(model: str, *, state: Path, url: str | None, args: tuple[str, ...], ranks: int) -> Planned:
    """What a start here would try. Raises Fault where the model is not whole."""
    directory = None if is_url(model) else Path(model)
    winners, node = Winners(state / WINNERS), node_name(os.environ)
    local_key, size, largest, place = model, None, 0, None
    if directory is not None:
        facts = check_model(directory, Needs.of(args, pickle=("*",)), state / DIGESTS, threading.Event())
        local_key, size, largest = facts.digest or model, facts.weight_bytes, largest_tensor(facts.weights)
        place = read_place(directory)
    bucket = model if directory is None else url
    wanted = Wanted(
        here=here(model, os.environ),
        directory=None if directory is None else str(directory),
        url=bucket,
        args=args,
        env=dict(os.environ),
        memory=read_memory(),
        weight_bytes=size,
        medium="unknown" if place is None else place.medium,
        ranks=ranks,
        largest_tensor_bytes=largest,
        tensors_file=_tensors_file(directory),
        local_seconds=winners.recall(node, local_key, versions(), cold=True) if directory else {},
        url_seconds=winners.recall(node, bucket, versions(), cold=True) if bucket else {},
    )
    return Planned(attempts(wanted))


def _tensors_file(directory: Path | None) -> str | None:
    found = sorted(directory.glob("*.tensors")) if directory is not None else []
    return str(found[0]) if found else None


def digest(directory: Path, *, replace: bool) -> str:
    """Write our list into `directory`; the model's digest. Not `replace`: not over a list that says otherwise."""
    try:
        found = write_digests(
            directory, {"digested": {"at": datetime.now(UTC).isoformat(timespec="seconds")}}, anew=replace
        )
    except OSError as error:
        raise PrepareError(f"{error.filename or directory} cannot be written ({error.strerror}): mend it") from error
    return f"{directory}: digests written; {found}"


@dataclass(frozen=True, slots=True)
class Made:
    """What `prepare` made."""

    prepared: Prepared

    def line(self) -> str:
        """For people."""
        made = self.prepared
        return f"{made.out}: {gib(made.bytes)} in {made.files} weight files; {made.digest}"

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {**asdict(self.prepared), "out": str(self.prepared.out)}


def prepare(
    model: Path,
    out: Path,
    *,
    dtype: str | None,
    shard_bytes: int,
    ranks: int,
    args: tuple[str, ...],
    tell: Callable[[str], None],
) -> Made:
    """Make `out`. Raises PrepareError, Fault."""
    from runtime.weights.prepare.sharded import shard  # noqa: PLC0415  (only where it is asked for)

    if ranks:
        return Made(shard(model, out, ranks=ranks, dtype=dtype, args=args, shard_bytes=shard_bytes, tell=tell))
    if args:
        raise PrepareError("--args is for --tensor-parallel: without it no engine is run")
    return Made(run_prepare(model, out, dtype=dtype, shard_bytes=shard_bytes, tell=tell))
