"""The commands `pilotlight shapes …`: capture sizes from what engines computed, for whoever writes arguments by hand.

What a command does is imported when it runs.

Exit codes: 0 done, 1 the files tell nothing, 2 the command line is wrong.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from runtime.engine.capture.sizes import Steps

app = typer.Typer(
    name="shapes",
    help="Which sizes of CUDA graphs fit what a service computes.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def _group() -> None:
    """Which sizes of CUDA graphs fit what a service computes."""


@app.command("choose")
def choose(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="A service's shapes.json, or what an engine's /metrics says; -"),
    ],
    max_num_seqs: Annotated[int, typer.Option(min=1, help="The engine's own limit of sequences.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Print the sizes as an argument, and on stderr what they pad beside vLLM's own.

    Several files (the replicas of a service, several days) are added up. A host does the same by itself for its own
    services; this is for engines that others start, and for bundles that are made ahead.
    """
    steps: Counter[int] = Counter()
    for file in files:
        found = _steps(file)
        if not found:
            typer.echo(
                f"error: {file} holds no steps: give shapes.json, or /metrics of an engine that answered", err=True
            )
            raise typer.Exit(1)
        steps.update({tokens: round(count * 1000) for tokens, count in found.items()})
    _tell({tokens: count / 1000 for tokens, count in steps.items()}, max_num_seqs, as_json=as_json)


def _steps(file: Path) -> "Steps":
    """What the file tells, whichever of the two it is; empty where it is neither."""
    from runtime.engine.capture.record import read
    from runtime.engine.capture.steps import steps_of

    if str(file) == "-":
        return steps_of(sys.stdin.read())
    try:
        return read(file).steps or steps_of(file.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        typer.echo(f"error: {file}: {error.strerror}", err=True)
        raise typer.Exit(1) from error


def _tell(steps: "Steps", max_num_seqs: int, *, as_json: bool) -> None:
    from runtime.engine.capture import sizes as choice

    sizes, own = choice.capture_sizes(steps, max_num_seqs), choice.own_sizes(max_num_seqs)
    missing = choice.without_graph(steps, sizes, max_num_seqs)
    alike = choice.within(steps, sizes, own)
    padded, own_padded = choice.padding(alike, sizes), choice.padding(alike, own)
    if as_json:
        told = {
            "sizes": sizes, "steps": round(sum(steps.values())), "padded": round(padded, 4),
            "without_graph": round(missing, 4), "own": {"sizes": len(own), "padded": round(own_padded, 4)},
        }  # fmt: skip
        typer.echo(json.dumps(told))
        return
    typer.echo(f"--cudagraph-capture-sizes {' '.join(map(str, sizes))}")
    typer.echo(
        f"{len(sizes)} sizes for {sum(steps.values()):.0f} steps: {padded:.1%} padded, {missing:.1%} without a graph"
        f" that have one with vLLM's own {len(own)} sizes; those pad {own_padded:.1%}",
        err=True,
    )


if __name__ == "__main__":
    app(prog_name="pilotlight shapes")
