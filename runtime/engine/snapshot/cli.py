"""The commands `pilotlight snapshot …`: images of ready engines made, listed, proven and removed.

What a command does is imported when it runs. Exit codes: 0 done, 1 it could not be done (stderr says what to do),
2 the command line is wrong.
"""

import asyncio
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer

app = typer.Typer(
    name="snapshot",
    help="Make, list, prove and remove images of ready engines (CRIU, as root; the host takes them with --snapshot).",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
Root = Annotated[Path, typer.Option("--images", help="The host's images: .snapshots in the directory of its engines.")]
Name = Annotated[str, typer.Argument(metavar="ID", help="As `ls` tells it.")]


@app.command("create", context_settings={"ignore_unknown_options": True})
def create_command(
    service: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME")],
    model: Annotated[Path, typer.Argument(help="The model's directory.", exists=True, file_okay=False)],
    images: Root,
    args: Annotated[list[str] | None, typer.Argument(metavar="[VLLM ARGUMENTS]…")] = None,
    name: Annotated[
        list[str] | None, typer.Option("--served-name", help="As the host serves it, in its order.")
    ] = None,
    env: Annotated[list[str] | None, typer.Option("--env", metavar="NAME=VALUE")] = None,
    hours: Annotated[float, typer.Option("--hours", min=0.01, help="How long it may be used.")] = 24.0,
) -> None:
    """Begin an engine that no client reaches, prove and warm it, and keep an image of it on this machine."""
    from runtime.contract import EngineSpec
    from runtime.engine.snapshot.create import NotMadeError, Order, create
    from runtime.engine.snapshot.criu import NoCriuError, find_criu
    from runtime.engine.snapshot.hosted import Snapshots
    from runtime.engine.snapshot.images import Images

    try:
        spec = EngineSpec(
            service=service,
            served_names=tuple(name or (service,)),
            model=str(model.absolute()),
            args=tuple(args or ()),
            env=dict(pair.split("=", 1) for pair in env or ()),
        )
        snapshots = Snapshots(Images(images), find_criu(os.environ), lambda: datetime.now(UTC))
        order = Order(spec, expires_s=hours * 3600, shared=images.absolute().parent)
        made = asyncio.run(create(order, snapshots))
    except (NotMadeError, NoCriuError, ValueError, OSError) as error:
        _fail(str(error))
    typer.echo(
        f"{made.id}: {made.size_bytes / 1e9:.2f} GB, begun in {made.stock_s:.1f} s, dumped in {made.dump_s:.1f} s,"
        f" until {made.expires_at.isoformat(timespec='seconds')}"
    )


@app.command("ls")
def list_command(images: Root) -> None:
    """List the images, the newest first."""
    from runtime.engine.snapshot.images import BadImageError, Images

    for place in Images(images).places():
        try:
            one = place.read()
        except BadImageError as error:
            typer.echo(f"{place.root.name}  no image: {error}")
            continue
        expires = one.expires_at.isoformat(timespec="seconds")
        typer.echo(f"{one.id}  {one.made_from.service}  {one.size_bytes / 1e9:.2f} GB  until {expires}")


@app.command("inspect")
def inspect_command(name: Name, images: Root) -> None:
    """Show one, and read all of it: 1 where it is damaged."""
    from runtime.engine.snapshot.images import BadImageError, Images
    from runtime.engine.snapshot.saved_files import damaged

    try:
        place = Images(images).place(name)
        one = place.read()
    except BadImageError as error:
        _fail(str(error))
    typer.echo(json.dumps(json.loads(one.model_dump_json(exclude={"files"})), indent=1))
    if why := damaged(place, one.files, whole=True):
        _fail(f"{name}: {why}: remove it with `rm`")


@app.command("rm")
def remove_command(name: Name, images: Root) -> None:
    """Remove one that no engine lives from."""
    from runtime.engine.snapshot.images import BadImageError, ImageInUseError, Images

    try:
        held = Images(images)
        held.remove(held.place(name))
    except (BadImageError, ImageInUseError, OSError) as error:
        _fail(str(error))


@app.command("cuda", context_settings={"ignore_unknown_options": True})
def cuda_command(
    action: Annotated[str, typer.Argument(metavar="create|inspect|restore")],
    directory: Annotated[Path, typer.Argument(help="Where the snapshot lies: yours alone.")],
    args: Annotated[list[str] | None, typer.Argument(metavar="[VLLM ARGUMENTS]…", help="Of create.")] = None,
    model: Annotated[str, typer.Option("--model", help="Of create: a remote model.")] = "",
    revision: Annotated[str, typer.Option("--revision", help="Of create: 40 hex digits.")] = "",
    port: Annotated[int, typer.Option("--port", help="Of restore, at loopback.")] = 8000,
) -> None:
    """Drive vLLM's own snapshots of an engine on one GPU (untested: no GPU was there)."""
    from runtime.engine.snapshot import cuda

    try:
        match action:
            case "create":
                argv = cuda.create_argv(model, revision, directory, tuple(args or ()))
            case "inspect":
                argv = cuda.inspect_argv(directory)
            case "restore":
                argv = cuda.restore_argv(directory, port)
            case _:
                raise ValueError(f"{action!r} is none of create, inspect, restore")
    except ValueError as error:
        _fail(str(error))
    if action != "inspect" and (why := cuda.missing(os.environ)):
        _fail(why)
    os.execv(argv[0], argv)  # noqa: S606  (no shell is wanted)


def _fail(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="pilotlight snapshot")
