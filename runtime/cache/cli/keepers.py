"""The commands about bundles that exist: ls, verify, restore, push, pull, gc, quarantine."""

from pathlib import Path
from typing import Annotated

import typer

from runtime.cache.cli.failures import told
from runtime.cache.cli.options import Bundle, Json, State, Trust, TrustKeys, epilog, store_url

app = typer.Typer()
_Store = Annotated[str, typer.Argument(metavar="STORE", help="A directory, s3://, gs://, az://, oci://.")]


@app.command("ls", epilog=epilog("pilotlight cache ls", "pilotlight cache ls s3://caches/prod --json"))
@told
def ls(
    state: State,
    stores: Annotated[
        list[str] | None, typer.Argument(metavar="[STORE]...", help="By default this host's own shelf.")
    ] = None,
    trust: Trust = None,
    trust_key: TrustKeys = None,
    as_json: Json = False,
) -> None:
    """List bundles.

    For what they are, who made them, what they save. Model, arguments and signer are as the store says them;
    `verify` proves them.
    """
    from runtime.cache.cli.contents import ls as do
    from runtime.cache.cli.places import OwnShelf

    own = OwnShelf(state)
    urls = [store_url(url) for url in stores or []]
    do(urls, own=own, trust=own.trust(trust, trust_key or []), as_json=as_json)


@app.command("verify", epilog=epilog("pilotlight cache verify chat.bundle", "pilotlight cache verify s3://caches/prod"))
@told
def verify(
    names: Annotated[list[str], typer.Argument(metavar="BUNDLE|STORE...", help="Bundles, or all of a store.")],
    state: State,
    trust: Trust = None,
    trust_key: TrustKeys = None,
    as_json: Json = False,
) -> None:
    """Prove that bundles are whole and trusted.

    Each is read to its last byte and checked as a restore does it; nothing is written. Exit code 1 if any is
    refused: damaged, not signed, signed by a key that is not trusted here, another than its name.
    """
    from runtime.cache.cli.bundles import verify as do
    from runtime.cache.cli.places import OwnShelf

    own = OwnShelf(state)
    if not do(names, own=own, trust=own.trust(trust, trust_key or []), as_json=as_json):
        raise typer.Exit(1)


@app.command("restore", epilog=epilog("pilotlight cache restore s3://caches/prod#3f2a91 /caches/chat"))
@told
def restore(
    bundle: Bundle,
    into: Annotated[Path, typer.Argument(metavar="DIR", help="The engine's cache root to be: absent, or empty.")],
    state: State,
    trust: Trust = None,
    trust_key: TrustKeys = None,
    for_key: Annotated[
        str | None, typer.Option("--for", metavar="KEY", help="Refuse a bundle of any other key (all 64 digits).")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="In place of what is there, in one step.")] = False,
    as_json: Json = False,
) -> None:
    """Unpack a bundle to a directory.

    For an engine that no host of ours starts: prints the variables that have it used. DIR appears whole, after
    every check, or not at all. The tree must stay where it is.
    """
    from runtime.cache.cli.bundles import restore as do
    from runtime.cache.cli.places import OwnShelf

    own = OwnShelf(state)
    policy = own.trust(trust, trust_key or [])
    do(bundle, into, own=own, trust=policy, key=for_key, replace=replace, as_json=as_json)


@app.command(
    "push",
    epilog=epilog("pilotlight cache push s3://caches/prod", "pilotlight cache push /mnt/caches release.bundle 3f2a91"),
)
@told
def push(
    store: _Store,
    state: State,
    bundles: Annotated[
        list[str] | None, typer.Argument(metavar="[BUNDLE]...", help="By default the newest of each key here.")
    ] = None,
    trust: Trust = None,
    trust_key: TrustKeys = None,
    as_json: Json = False,
) -> None:
    """Publish bundles to a store.

    Each is verified here first. What is quarantined here does not go unless it is named.
    """
    from runtime.cache.cli.places import OwnShelf
    from runtime.cache.cli.transfers import push as do

    own = OwnShelf(state)
    if not do(store_url(store), bundles or [], own=own, trust=own.trust(trust, trust_key or []), as_json=as_json):
        raise typer.Exit(1)


@app.command(
    "pull",
    epilog=epilog(
        "pilotlight cache pull s3://caches/prod --trust trust.yaml",
        "pilotlight cache pull oci://registry/team/caches 3f2a91 --into /opt/prebuilt-cache-draft",
    ),
)
@told
def pull(
    store: _Store,
    state: State,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="By default the newest of each key there.")
    ] = None,
    into: Annotated[
        str | None, typer.Option(metavar="STORE", help="Where to; by default this host's own shelf.")
    ] = None,
    trust: Trust = None,
    trust_key: TrustKeys = None,
    as_json: Json = False,
) -> None:
    """Fetch bundles from a store.

    Ahead of the starts that will want them. What the trust policy does not take is refused.
    """
    from runtime.cache.cli.places import OwnShelf
    from runtime.cache.cli.transfers import pull as do

    own = OwnShelf(state)
    target = store_url(into) if into is not None else None
    policy = own.trust(trust, trust_key or [])
    if not do(store_url(store), keys or [], own=own, into=target, trust=policy, as_json=as_json):
        raise typer.Exit(1)


@app.command(
    "gc",
    epilog=epilog(
        "pilotlight cache gc", "pilotlight cache gc s3://caches/prod --older-than 90d --max-size 50GiB --yes"
    ),
)
@told
def gc(
    state: State,
    store: Annotated[str | None, typer.Argument(metavar="[STORE]", help="By default this host's own shelf.")] = None,
    keep: Annotated[int, typer.Option(min=1, help="The newest so many of each key stay.")] = 2,
    older_than: Annotated[str | None, typer.Option(metavar="DURATION", help="Older ones go: 30d, 12h.")] = None,
    max_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="In all; the oldest beyond it go: 500MB, 10GiB.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them; without it they are only shown.")] = False,
    as_json: Json = False,
) -> None:
    """Delete bundles that are too many, old or large.

    Without --yes it only says which would go. What publishers left that died goes too. An engine that runs
    keeps what it restored: that is a copy.
    """
    from runtime.cache.cli.contents import bytes_of, seconds_of
    from runtime.cache.cli.contents import gc as do
    from runtime.cache.cli.places import OwnShelf
    from runtime.cache.stores.keep import Keep

    kept = Keep(
        per_key=keep,
        max_age_s=seconds_of(older_than) if older_than is not None else None,
        max_bytes=bytes_of(max_size) if max_size is not None else None,
    )
    do(store_url(store) if store is not None else None, own=OwnShelf(state), keep=kept, really=yes, as_json=as_json)


quarantine = typer.Typer(
    help="Bundles that this host does not restore.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(quarantine, name="quarantine")


@quarantine.command("ls", epilog=epilog("pilotlight cache quarantine ls"))
@told
def quarantine_ls(state: State, as_json: Json = False) -> None:
    """List what is put aside, since when, and why.

    An engine ended soon after such a bundle was restored. It is put aside for 14 days.
    """
    from runtime.cache.cli.places import OwnShelf
    from runtime.cache.cli.quarantined import ls as do

    do(OwnShelf(state), as_json=as_json)


@quarantine.command("release", epilog=epilog("pilotlight cache quarantine release 9c41d0"))
@told
def quarantine_release(
    state: State,
    digests: Annotated[
        list[str] | None, typer.Argument(metavar="[DIGEST]...", help="As much of it as is clear.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
) -> None:
    """Let bundles be restored again, from the next start on."""
    from runtime.cache.cli.places import OwnShelf
    from runtime.cache.cli.quarantined import release as do

    if bool(digests) == everything:
        raise typer.BadParameter("say which: either DIGEST or --all")
    do(digests or [], OwnShelf(state), everything=everything)
