"""`fingerprint` and `explain`: what a start is keyed by, and what differs between two."""

import json
from pathlib import Path

import typer

from runtime.cache.cli.failures import Refused, say
from runtime.cache.cli.interrupt import run
from runtime.cache.cli.places import OwnShelf
from runtime.cache.cli.reference import here, parse
from runtime.cache.cli.terminal import Line
from runtime.cache.cli.wanted import fingerprint as made
from runtime.cache.cli.wanted import spec_of
from runtime.cache.explain import explain as explained
from runtime.cache.explain import explain_json
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.restore import inspect
from runtime.cache.staging import draft_file, publish_file
from runtime.cache.trust import TrustPolicy


def fingerprint(
    model: str, *, args: tuple[str, ...], env: dict[str, str], platform: str, out: Path | None, as_json: bool
) -> None:
    """Print the key and the inputs of a start, or write them to `out`."""
    found = run(made(spec_of(model, args, env, platform)))
    if out is not None:
        with draft_file(out) as draft:
            draft.path.write_text(found.to_json())
            publish_file(draft, out)
        say(f"{out}: {len(found.inputs)} inputs")
    if as_json:
        typer.echo(found.to_json(), nl=False)
        return
    typer.echo(found.key)
    if out is None:
        for name, value in found.inputs.items():
            typer.echo(f"  {name} {value}")


def explain(first: str, second: str, *, own: OwnShelf, trust: TrustPolicy, as_json: bool) -> bool:
    """Print what differs; whether nothing does."""

    async def both() -> tuple[Fingerprint, Fingerprint]:
        with Line() as line:
            return await _read(first, own, trust, line), await _read(second, own, trust, line)

    one, other = run(both())
    typer.echo(json.dumps(explain_json(one, other)) if as_json else explained(one, other))
    return one == other


async def _read(text: str, own: OwnShelf, trust: TrustPolicy, line: Line) -> Fingerprint:
    named = parse(text, own)
    if isinstance(named, Path) and not _is_bundle(named):
        return Fingerprint.load(named)
    async with here(named, line) as found:
        return Fingerprint(inspect(found.file, trust=trust).manifest.inputs)


def given(
    file: Path | None, model: str | None, args: tuple[str, ...], env: dict[str, str], platform: str
) -> Fingerprint:
    """The fingerprint in `file`, else that of a start of `model` here. Raises FingerprintError, Refused."""
    if file is None:
        return run(made(spec_of(model or "", args, env, platform)))
    if not file.is_file():
        raise Refused(f"{file}: no such file: `pilotlight cache fingerprint MODEL -o {file}` writes one")
    return Fingerprint.load(file)


def _is_bundle(file: Path) -> bool:
    """Whether it begins with the four bytes of a zstd frame (RFC 8878), with which no JSON does."""
    with file.open("rb") as opened:
        return opened.read(4) == b"\x28\xb5\x2f\xfd"
