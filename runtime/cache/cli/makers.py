"""The commands that make something: fingerprint, explain, build, pack, keygen, countersign."""

from pathlib import Path
from typing import Annotated

import typer

from runtime.cache.cli.failures import pairs, told, words
from runtime.cache.cli.options import (
    Args,
    Bundle,
    Env,
    Json,
    Model,
    OfPlatform,
    Platform,
    Signer,
    State,
    Trust,
    TrustKeys,
    epilog,
    store_url,
)

app = typer.Typer()
_Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="FILE", help="Where to; in a directory it gets its own name.")
]


@app.command(
    "fingerprint",
    epilog=epilog(
        "pilotlight cache fingerprint /models/chat --args '--max-num-seqs 64'",
        "pilotlight cache fingerprint /models/chat -o here.json",
    ),
)
@told
def fingerprint(
    model: Model,
    args: Args = "",
    env: Env = None,
    platform: OfPlatform = Platform.AUTO,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it there, to compare.")] = None,
    as_json: Json = False,
) -> None:
    """Print the key of a start, and every input of it.

    It is what a start of MODEL on this machine asks stores for. Two starts with one key share a bundle. Nothing
    is imported of vLLM and nothing is started.
    """
    from runtime.cache.cli.fingerprints import fingerprint as do

    do(model, args=words(args), env=pairs(env or []), platform=platform.value, out=out, as_json=as_json)


@app.command(
    "explain",
    epilog=epilog(
        "pilotlight cache explain here.json there.json",
        "pilotlight cache explain here.json s3://caches/prod#3f2a91",
        "pilotlight cache explain 3f2a91 9c41d0",
    ),
)
@told
def explain(
    first: Annotated[str, typer.Argument(metavar="A", help="A file of `fingerprint -o`, or a bundle as elsewhere.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The same.")],
    state: State,
    trust: Trust = None,
    trust_key: TrustKeys = None,
    as_json: Json = False,
) -> None:
    """Say what differs between two fingerprints.

    Each difference with both values and why it matters. A and B are each a fingerprint's file, a bundle's file,
    STORE#KEY, or a key of this host's shelf: six digits of it or more, as a start's record shows it.
    """
    from runtime.cache.cli.fingerprints import explain as do
    from runtime.cache.cli.places import OwnShelf

    own = OwnShelf(state)
    do(first, second, own=own, trust=own.trust(trust, trust_key or []), as_json=as_json)


@app.command(
    "build",
    epilog=epilog(
        "pilotlight cache build /models/chat --args '--max-model-len 8192'",
        "pilotlight cache build /models/chat --matrix shapes.yaml --store s3://caches/prod --key /keys/build",
    ),
)
@told
def build(
    model: Model,
    state: State,
    args: Args = "",
    env: Env = None,
    platform: OfPlatform = Platform.AUTO,
    matrix: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML list of variants: axes, args, env; see the how-to.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="Where bundles go; by default this host's own shelf.")
    ] = None,
    lock: Annotated[
        str | None, typer.Option(metavar="URL", help="Who builds, if the store keeps no lock: lease://NAMESPACE.")
    ] = None,
    key: Signer = None,
    trust: Trust = None,
    trust_key: TrustKeys = None,
    force: Annotated[bool, typer.Option("--force", help="Build also what is there already.")] = False,
    no_proof: Annotated[
        bool, typer.Option("--no-proof", help="Leave out the second start, which proves that the bundle is used.")
    ] = False,
    no_fork: Annotated[bool, typer.Option("--no-fork", help="Have each engine import vLLM anew.")] = False,
    timeout_s: Annotated[
        float, typer.Option(min=1, help="For one start, and for another's build of the same.")
    ] = 1800.0,
    work: Annotated[
        Path | None, typer.Option(metavar="DIR", exists=True, file_okay=False, help="For drafts; else TMPDIR's.")
    ] = None,
    engine_command: Annotated[str | None, typer.Option(hidden=True, help="In place of vLLM, for tests.")] = None,
    as_json: Json = False,
) -> None:
    """Compile ahead, so that no user's start has to.

    For each variant of a shape matrix an engine is started as a host starts it, answers its golden prompt, and
    what it compiled becomes a signed bundle; a second engine gets that bundle in another directory and must
    load it and answer alike; then it is published. A bundle that is there and taken is left. A variant that
    fails stops no other, and is exit code 1.
    """
    from runtime.cache.cli.build import Asked
    from runtime.cache.cli.build import build as do
    from runtime.cache.cli.places import OwnShelf

    own = OwnShelf(state)
    asked = Asked(
        model=model,
        args=words(args),
        env=pairs(env or []),
        platform=platform.value,
        matrix=matrix,
        store=store_url(store) if store is not None else None,
        lock=lock,
        work=work,
        force=force,
        proof=not no_proof,
        fork=not no_fork,
        timeout_s=timeout_s,
        command=words(engine_command, "--engine-command") if engine_command is not None else None,
    )
    if not do(asked, own=own, signer=own.signer(key), trust=own.trust(trust, trust_key or []), as_json=as_json):
        raise typer.Exit(1)


@app.command(
    "pack",
    epilog=epilog(
        "pilotlight cache pack /caches/chat --model /models/chat --args '--max-num-seqs 64' -o .",
        "pilotlight cache pack /caches/chat --fingerprint there.json -o chat.bundle --key build.key",
    ),
)
@told
def pack(
    root: Annotated[Path, typer.Argument(metavar="CACHE_ROOT", help="An engine's cache root, its VLLM_CACHE_ROOT.")],
    state: State,
    out: _Out = Path(),
    model: Annotated[str | None, typer.Option(help="The model that its engine served, here.")] = None,
    args: Args = "",
    env: Env = None,
    platform: OfPlatform = Platform.AUTO,
    fingerprint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of `fingerprint -o` where its engine ran, in place of --model.")
    ] = None,
    compile_s: Annotated[
        float | None, typer.Option(min=0, help="Seconds of compiling that it saves, if known.")
    ] = None,
    key: Signer = None,
    as_json: Json = False,
) -> None:
    """Make a signed bundle of an engine's cache root.

    For whom it is must be told, as no cache says it: the model, arguments and environment that its engine had.
    Told wrong, starts find it, load nothing of it, and say so (`recompiled`). `build` leaves nothing to tell.
    """
    from runtime.cache.cli.bundles import pack as do
    from runtime.cache.cli.fingerprints import given
    from runtime.cache.cli.places import OwnShelf

    if (model is None) == (fingerprint is None):
        raise typer.BadParameter("say whose code it is: either --model with --args and --env, or --fingerprint")
    found = given(fingerprint, model, words(args), pairs(env or []), platform.value)
    do(root, out, fingerprint=found, signer=OwnShelf(state).signer(key), compile_s=compile_s, as_json=as_json)


@app.command("keygen", epilog=epilog("pilotlight cache keygen build.key"))
@told
def keygen(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The private key; its public half is FILE.pub.")],
    as_json: Json = False,
) -> None:
    """Make a key to sign bundles with.

    Prints the trust policy that takes what it signs. Nothing is overwritten. Whoever has the private key
    decides what code runs on each host that trusts it.
    """
    from runtime.cache.cli.bundles import keygen as do

    do(file, as_json=as_json)


@app.command("countersign", epilog=epilog("pilotlight cache countersign 3f2a91 --key release.key -o release.bundle"))
@told
def countersign(
    bundle: Bundle,
    state: State,
    out: _Out = Path(),
    key: Signer = None,
    trust: Trust = None,
    trust_key: TrustKeys = None,
    as_json: Json = False,
) -> None:
    """Add a signature to a bundle that is trusted here.

    So hosts take it that trust the new key only. Contents and manifest stay, byte for byte; the file is another
    one, with another digest. `push` publishes it.
    """
    from runtime.cache.cli.bundles import countersign as do
    from runtime.cache.cli.places import OwnShelf

    own = OwnShelf(state)
    do(bundle, out, own=own, signer=own.signer(key), trust=own.trust(trust, trust_key or []), as_json=as_json)
