"""The commands `pilotlight weights …`: options and help; what a command does is imported when it runs.

Until it is wired into `pilotlight`: `python -m runtime.weights.cli`. Exit codes: 0 done, 1 it could not be done or
something is amiss (stderr says what to do), 2 the command line is wrong, 130 interrupted.
"""

import functools
import json
import os
import signal
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

_P = ParamSpec("_P")
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
_Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model directory, or a URL (s3://, gs://, az://).")]
_Directory = Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.", exists=True, file_okay=False)]
_Ranks = Annotated[int, typer.Option(min=1, max=64, help="Processes of one engine on this machine (tensor parallel).")]
_Pickle = Annotated[
    list[str] | None,
    typer.Option("--allow-pickle", metavar="PATTERN", help="Names of pickled weights to accept (pytorch_model*.bin)."),
]
_ARGS_HELP = "vLLM's arguments as the service gives them, as one string."


class Dtype(StrEnum):
    """What weights can be converted to."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


def default_state() -> Path:
    """Where digests and winners are remembered: `$XDG_STATE_HOME/pilotlight`, by default ~/.local/state/pilotlight."""
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if home else Path.home() / ".local" / "state") / "pilotlight"


_State = Annotated[
    Path,
    typer.Option(
        envvar="PILOTLIGHT_STATE",
        default_factory=default_state,
        show_default="$XDG_STATE_HOME/pilotlight or ~/.local/state/pilotlight",
        help="Directory in which digests and measurements are remembered.",
    ),
]

app = typer.Typer(
    name="weights",
    help="Check, prepare and measure how a model's weights are read.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def told(command: Callable[_P, None]) -> Callable[_P, None]:
    """A command whose known failures become a line on stderr and an exit code."""

    @functools.wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        from runtime.ready.fault import Fault  # noqa: PLC0415  (--help shall not wait for imports)
        from runtime.weights.bench.process import BenchError  # noqa: PLC0415
        from runtime.weights.object_store import StoreError  # noqa: PLC0415
        from runtime.weights.prepare.run import PrepareError  # noqa: PLC0415

        # Begun in the background of a shell it would ignore Ctrl-C, and a bench of a hundred rounds goes on.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            command(*args, **kwargs)
        except (Fault, BenchError, StoreError, PrepareError) as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(1) from error
        except KeyboardInterrupt:
            typer.echo("interrupted: nothing is left behind", err=True)
            raise typer.Exit(130) from None

    return run


@app.command("check")
@told
def check(
    model: _Model,
    state: _State,
    args: Annotated[str, typer.Option(help=_ARGS_HELP)] = "",
    allow_pickle: _Pickle = None,
    dtype: Annotated[Dtype | None, typer.Option(help="Served in; by default as the config says.")] = None,
    require_digests: Annotated[bool, typer.Option(help="Without our list of digests it counts as incomplete.")] = False,
    ranks: _Ranks = 1,
    as_json: _Json = False,
) -> None:
    """Prove MODEL whole, and name what stands in the way of a fast start: files, memory, disks, credentials.

    Every byte is held against the digests that came with the model. Exit code 1 where a start would fail.
    """
    from runtime.weights.commands import check as run  # noqa: PLC0415

    answer = run(
        model,
        state=state,
        args=tuple(args.split()),
        pickle=tuple(allow_pickle or ()),
        dtype=dtype.value if dtype else None,
        list_required=require_digests,
        ranks=ranks,
    )
    if as_json:
        typer.echo(json.dumps(answer.as_json()))
    else:
        for line in answer.lines():
            typer.echo(line)
    if not answer.good:
        raise typer.Exit(1)


@app.command("prepare")
@told
def prepare(
    model: _Directory,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The directory to make; must not exist.")],
    dtype: Annotated[Dtype | None, typer.Option(help="Store weights in what they are served in.")] = None,
    shard_gib: Annotated[float, typer.Option(min=0.001, help="Size of a weight file at most, in GiB.")] = 4.0,
    tensor_parallel: Annotated[
        int | None, typer.Option(min=1, max=64, help="One file for each rank, as vLLM lays it out.")
    ] = None,
    args: Annotated[str, typer.Option(help=_ARGS_HELP + " Only with --tensor-parallel.")] = "",
    as_json: _Json = False,
) -> None:
    """Do once what each start of MODEL would repeat, into OUT.

    Pickle becomes safetensors (read by torch's restricted reader), weights the served dtype, files of even size in the
    order in which a model is built, digests are written last. OUT appears whole or not at all.
    """
    from runtime.weights.commands import prepare as run  # noqa: PLC0415

    answer = run(
        model,
        out,
        dtype=dtype.value if dtype else None,
        shard_bytes=int(shard_gib * 2**30),
        ranks=tensor_parallel or 0,
        args=tuple(args.split()),
        tell=lambda text: typer.echo(text, err=True),
    )
    typer.echo(json.dumps(answer.as_json()) if as_json else answer.line())


@app.command("digest")
@told
def digest(
    model: _Directory,
    replace: Annotated[bool, typer.Option("--replace", help="Over a list that says otherwise of a file, too.")] = False,
) -> None:
    """Write the digests of MODEL's files as they lie there now. Do it where they are known to be good."""
    from runtime.weights.commands import digest as run  # noqa: PLC0415

    typer.echo(run(model, replace=replace))


@app.command("bench")
@told
def bench(
    model: _Model,
    state: _State,
    loader: Annotated[list[str] | None, typer.Option(help="Only this one, by its name; may be repeated.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="How often each is measured, interleaved.")] = 3,
    ranks: _Ranks = 1,
    warm: Annotated[
        bool, typer.Option("--warm", help="Leave the page cache; by default it is dropped each time.")
    ] = False,
    timeout_s: Annotated[float, typer.Option(min=1, help="For one load.")] = 1800.0,
    remember: Annotated[bool, typer.Option(help="Keep the result for the starts of this model on this node.")] = True,
    as_json: _Json = False,
) -> None:
    """Measure every loader on MODEL, each in a fresh process, beside what the storage can give at all.

    A loader is done when every byte is where the engine would hold it, page faults included. What cannot run here is
    named with what it needs.
    """
    from runtime.weights.bench.command import bench as run  # noqa: PLC0415

    run(
        model,
        state=state,
        names=tuple(loader or ()),
        rounds=rounds,
        ranks=ranks,
        cold=not warm,
        timeout_s=timeout_s,
        remember=remember,
        as_json=as_json,
    )


@app.command("plan")
@told
def plan(
    model: _Model,
    state: _State,
    url: Annotated[str | None, typer.Option(help="The same model in a bucket, beside a MODEL directory.")] = None,
    args: Annotated[str, typer.Option(help=_ARGS_HELP)] = "",
    ranks: _Ranks = 1,
    as_json: _Json = False,
) -> None:
    """Show in which order a start would try to get MODEL's weights here, and why."""
    from runtime.weights.commands import plan as run  # noqa: PLC0415

    found = run(model, state=state, url=url, args=tuple(args.split()), ranks=ranks)
    if as_json:
        typer.echo(json.dumps(found.as_json()))
    else:
        for line in found.lines():
            typer.echo(line)


if __name__ == "__main__":
    sys.exit(app(prog_name="pilotlight weights"))
