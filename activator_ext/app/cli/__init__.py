"""The command `pilotlight`: every command's options and help.

What a command does stands in the module of its name and is imported when it runs, so that `--help` takes a tenth of
a second. Exit codes: 0 done, 1 it could not be done (stderr says why and what to do), 2 the command line is wrong.
"""

import os
from enum import StrEnum
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Annotated

import typer

from activator_ext.app.cli.failures import told
from activator_ext.app.streams import told_if_unwritten

_EXIT_CODES = "Exit codes: 0 done, 1 it could not be done (stderr says what to do), 2 the command line is wrong."


class Platform(StrEnum):
    """What engines run on."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


def _epilog(*examples: str, exit_codes: str = _EXIT_CODES) -> str:
    # \b keeps the lines of a paragraph as they are.
    lines = "\n".join(f"  {example}" for example in examples)
    return f"\b\nExamples:\n{lines}\n\n{exit_codes}"


def _default_state() -> Path:
    """`$XDG_STATE_HOME/pilotlight`, by default ~/.local/state/pilotlight."""
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if home else Path.home() / ".local" / "state") / "pilotlight"


def _volumes(texts: list[str]) -> dict[str, Path]:
    """`claim=DIR`, repeated."""
    volumes: dict[str, Path] = {}
    for text in texts:
        claim, equals, directory = text.partition("=")
        if not claim or not equals or not directory:
            raise typer.BadParameter(f"{text!r} is not CLAIM=DIR: write --volume models=/srv/models")
        if claim in volumes:
            raise typer.BadParameter(f"--volume {claim} is given twice: leave one out")
        volumes[claim] = Path(directory).expanduser().absolute()
    return volumes


def _store(text: str) -> str:
    """A store's URL; a directory may be given as a path, and is made absolute. The host knows the kinds."""
    if not text:
        raise typer.BadParameter("a store is empty: is a variable of the shell unset?")
    return text if ":" in text else str(Path(text).expanduser().absolute())


def _path(text: str) -> Path:
    """A path; an empty one is refused, which would otherwise mean the current directory (`check "$UNSET"`)."""
    if not text:
        raise typer.BadParameter("a path is empty: is a variable of the shell unset?")
    return Path(text)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("pilotlight"))
        raise typer.Exit


_State = Annotated[
    Path,
    typer.Option(
        envvar="PILOTLIGHT_STATE",
        default_factory=_default_state,
        show_default="$XDG_STATE_HOME/pilotlight or ~/.local/state/pilotlight",
        help="Directory of the running `pilotlight up`.",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print what the API answers, as JSON, and nothing else.")]
_Service = Annotated[str, typer.Argument(metavar="SERVICE", help="NAMESPACE/NAME, or NAME where only one has it.")]
_Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILES", help="YAML files, or directories of them.", parser=_path),
]
_VolumeTexts = Annotated[
    list[str] | None,
    typer.Option("--volume", metavar="CLAIM=DIR", help="Directory of a PersistentVolumeClaim that models lie on."),
]
_Platform = Annotated[Platform, typer.Option(help="What engines run on; auto: cuda where there is a driver.")]
_Kubeconfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Instead of KUBECONFIG's or the pod's own login.", parser=_path)
]
_TlsCert = Annotated[Path | None, typer.Option(metavar="FILE", help="Certificate that KEDA is shown.", parser=_path)]
_TlsKey = Annotated[Path | None, typer.Option(metavar="FILE", help="Its key.", parser=_path)]
_ClientCa = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Authority of KEDA's client certificate.", parser=_path)
]
_Plain = Annotated[bool, typer.Option("--plain", help="Without TLS though not on loopback: a mesh sees to who asks.")]

app = typer.Typer(
    name="pilotlight",
    help="Models that cost nothing while idle and are ready before the first request.",
    epilog=_epilog("pilotlight up chat.yaml runtime.yaml", "pilotlight status -w", "pilotlight COMMAND --help"),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


for _commands in entry_points(group="pilotlight.commands"):
    # Of rooms that this one must not import (`pilotlight weights` is the serving image's own), found by name.
    app.add_typer(_commands.load(), name=_commands.name)


def main() -> None:
    """What the `pilotlight` script runs (activator_ext/__main__.py)."""
    with told_if_unwritten():
        app(prog_name="pilotlight")


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


@app.command(
    "up",
    epilog=_epilog(
        "pilotlight up chat.yaml runtime.yaml policies/",
        "pilotlight up . --volume models=/srv/models --listen 127.0.0.1:9000",
        "pilotlight up . --store s3://bucket/caches --trust trust.yaml",
        "curl http://127.0.0.1:8080/v1/models",
    ),
)
@told
def up(
    files: _Files,
    state: _State,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where requests arrive.")] = "127.0.0.1:8080",
    api_listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the API listens.")] = "127.0.0.1:8081",
    volume: _VolumeTexts = None,
    platform: _Platform = Platform.AUTO,
    store: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL", help="Take compiled code from there, too: a directory, s3://, gs://, az://, oci://."
        ),
    ] = None,
    publish_to: Annotated[
        str | None, typer.Option(metavar="URL", help="Put what is compiled here there, for other machines.")
    ] = None,
    trust: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="Whose compiled code is taken; without it, our own only."
        ),
    ] = None,
    no_fork: Annotated[bool, typer.Option("--no-fork", help="Have each engine import vLLM anew.")] = False,
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="Restore engines from images of ready ones where there are any (root).")
    ] = False,
    engine_command: Annotated[str | None, typer.Option(hidden=True, help="In place of vLLM, for tests.")] = None,
) -> None:
    """Serve the models of FILES on this machine, from zero.

    FILES hold InferenceServices, ServingRuntimes and PrewarmPolicies, as for a cluster. A service that nothing wants
    has no engine process: its first request waits while the engine starts, a schedule or a hold starts it ahead.
    FILES are read again when they change; a bad edit is reported and the last good state stays. Ctrl-C lets running
    answers finish, then stops everything.
    """
    from activator_ext.app.host_options import HostOptions
    from activator_ext.app.up import up as serve

    code = serve(
        files,
        state=state,
        listen=listen,
        api_listen=api_listen,
        volumes=_volumes(volume or []),
        platform=platform.value,
        host_options=HostOptions(
            stores=tuple(_store(url) for url in store or []),
            publish_to=None if publish_to is None else _store(publish_to),
            trust=trust,
            fork=not no_fork,
            snapshot=snapshot,
        ),
        engine_command=engine_command,
    )
    raise typer.Exit(code)


@app.command(
    "status", epilog=_epilog("pilotlight status", "pilotlight status -w", "pilotlight status team-a/chat --json")
)
@told
def status(
    state: _State,
    service: Annotated[str | None, typer.Argument(metavar="SERVICE", help="One service, in full.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Draw again each second until Ctrl-C.")] = False,
    as_json: _Json = False,
) -> None:
    """How warm each service is, why, and what comes next.

    Service, warmth, the floor wanted and its reason, when it is warm next by plan, and the lead time planned with.
    """
    from activator_ext.app.cli import services

    services.status(state, service, watch=watch, as_json=as_json)


@app.command("starts", epilog=_epilog("pilotlight starts chat", "pilotlight starts chat --id HOST-7 --json"))
@told
def starts(
    service: _Service,
    state: _State,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most so many, the newest.")] = 10,
    start_id: Annotated[str | None, typer.Option("--id", help="The waterfall of this start.")] = None,
    as_json: _Json = False,
) -> None:
    """Where the seconds of a service's starts went.

    The newest starts, and the newest one (or that of --id) stage by stage, the seconds without a name included.
    """
    from activator_ext.app.cli import services

    services.starts(state, service, limit=limit, start_id=start_id, as_json=as_json)


@app.command(
    "prewarm",
    epilog=_epilog(
        "pilotlight prewarm chat --for 1h",
        "pilotlight prewarm chat --ready-by 09:00 --for 8h --reason 'demo for the board'",
        "pilotlight prewarm chat --ready-by 'tomorrow 09:00' --tz Europe/Madrid --for 90m",
        "pilotlight prewarm chat --now --for 10m --wait && ask-it-something",
    ),
)
@told
def prewarm(
    service: _Service,
    state: _State,
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long: 90s, 10m, 1h30m, 2d.")],
    replicas: Annotated[int, typer.Option(min=1, help="How many warm replicas.")] = 1,
    ready_by: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Warm by then: 09:00, 'tomorrow 09:00', 'in 10m', 2026-12-01T09:00[+01:00]."),
    ] = None,
    at_once: Annotated[bool, typer.Option("--now", help="As soon as possible (the default).")] = False,
    zone: Annotated[str | None, typer.Option("--tz", metavar="ZONE", help="Zone of TIME; yours by default.")] = None,
    reason: Annotated[str, typer.Option(help="Shown wherever the hold is.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Show the start's progress on stderr until it is warm.")] = False,
    as_json: _Json = False,
) -> None:
    """Have a service warm now or by a time, for a while.

    The floor asked for is a hold; `pilotlight holds` lists holds and ends them.
    """
    from activator_ext.app.cli import floors

    floors.prewarm(
        state,
        service,
        replicas=replicas,
        ready_by=ready_by,
        at_once=at_once,
        duration=duration,
        zone_name=zone,
        reason=reason,
        wait=wait,
        as_json=as_json,
    )


@app.command("holds", epilog=_epilog("pilotlight holds", "pilotlight holds --release hold-1a2b3c4d"))
@told
def holds(
    state: _State,
    release: Annotated[str | None, typer.Option(metavar="ID", help="End this hold now.")] = None,
    as_json: _Json = False,
) -> None:
    """The holds that stand; --release ends one.

    Holds that are announced, active, or ended in the last day.
    """
    from activator_ext.app.cli import floors

    floors.holds(state, release=release, as_json=as_json)


@app.command(
    "preview",
    epilog=_epilog(
        "pilotlight preview chat --days 14", "pilotlight preview chat --file . --volume models=/srv/models --days 60"
    ),
)
@told
def preview(
    service: _Service,
    state: _State,
    days: Annotated[float, typer.Option(min=0.01, max=366, help="How many days to look ahead.")] = 14,
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", metavar="FILE", help="Plan from this file, repeatable, without a running `up`."),
    ] = None,
    volume: _VolumeTexts = None,
    platform: _Platform = Platform.AUTO,
    as_json: _Json = False,
) -> None:
    """When a service will be warm by plan, and why.

    Times are in each schedule's own zone; what a clock change (DST) does to a window is marked.
    """
    from activator_ext.app.cli import plans

    plans.preview(
        state,
        service,
        days=days,
        files=file or [],
        volumes=_volumes(volume or []),
        platform=platform.value,
        as_json=as_json,
    )


@app.command(
    "check",
    epilog=_epilog(
        "pilotlight check chat.yaml runtime.yaml policies/",
        "pilotlight check . --volume models=/srv/models --strict",
        "kustomize build overlays/prod | pilotlight check -",
        exit_codes="Exit codes: 0 no error, 1 an error (with --strict a warning too), 2 the command line is wrong.",
    ),
)
@told
def check(
    files: _Files,
    volume: _VolumeTexts = None,
    platform: _Platform = Platform.AUTO,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as one JSON list, nothing else.")] = False,
) -> None:
    """Find what is wrong in FILES before `up` does.

    Every finding at once, each with its file, line, key and fix: errors are what up would not serve, warnings what it
    serves differently than a cluster. FILES may be - for standard input.
    """
    from activator_ext.app.cli import files as check_files

    check_files.check(files, _volumes(volume or []), platform.value, strict=strict, as_json=as_json)


@app.command("events", epilog=_epilog("pilotlight events", "pilotlight events -f --json"))
@told
def events(
    state: _State,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many of the newest to begin with.")] = 20,
    as_json: _Json = False,
) -> None:
    """What happened and why, oldest first.

    With -f and --json: one JSON object a line.
    """
    from activator_ext.app.cli import event_lines

    event_lines.events(state, follow=follow, limit=limit, as_json=as_json)


@app.command(
    "keda-scaler",
    epilog=_epilog(
        "pilotlight keda-scaler --listen 127.0.0.1:9090 --floors floors.yaml",
        "pilotlight keda-scaler --listen 0.0.0.0:9090 --floors floors.yaml "
        "--tls-cert tls.crt --tls-key tls.key --client-ca ca.crt",
        "pilotlight keda-scaler --controller http://127.0.0.1:8081 --token-file ~/.local/state/pilotlight/token",
    ),
)
@told
def keda_scaler(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where KEDA asks.")] = "127.0.0.1:9090",
    floors: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Floors in a file, read again when it changes.", parser=_path)
    ] = None,
    controller: Annotated[str | None, typer.Option(metavar="URL", help="Floors of the controller there.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The controller's token, read at each call.", parser=_path)
    ] = None,
    controller_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Authority of the controller's certificate.", parser=_path)
    ] = None,
    tls_cert: _TlsCert = None,
    tls_key: _TlsKey = None,
    client_ca: _ClientCa = None,
    plain: _Plain = False,
) -> None:
    """Serve floors to KEDA as an external push scaler.

    For who wants the scaler alone. A ScaledObject names it in a trigger `external-push`, with metadata.scalerAddress
    and metadata.service, and is scaled to the floor of that service: 0 → 1 as soon as the floor rises. FILE holds
    `floors: {NAMESPACE/NAME: REPLICAS}`, and `{replicas: N, until: TIME}` for one that ends. A floor that is not
    known is an error for KEDA, which then changes nothing; only a floor of 0 lets it go to zero.
    """
    from activator_ext.app.cli import keda

    keda.keda_scaler(
        listen=listen,
        floors=floors,
        controller=controller,
        token_file=token_file,
        controller_ca=controller_ca,
        tls_cert=tls_cert,
        tls_key=tls_key,
        client_ca=client_ca,
        plain=plain,
    )


@app.command(
    "controller",
    epilog=_epilog(
        "pilotlight controller",
        "pilotlight controller --namespace team-a --kubeconfig ~/.kube/config",
        "pilotlight controller --keda-listen 0.0.0.0:9090 --scaler-address pilotlight.pilotlight:9090 "
        "--tls-cert tls.crt --tls-key tls.key --client-ca ca.crt --scaler-auth cluster/pilotlight",
    ),
)
@told
def controller(
    state: _State,
    kubeconfig: _Kubeconfig = None,
    namespace: Annotated[str, typer.Option(metavar="NAME", help="Only this namespace; without it all.")] = "",
    lease: Annotated[
        str | None,
        typer.Option(metavar="NAMESPACE/NAME", help="Of several controllers, the holder of this Lease acts."),
    ] = None,
    activator: Annotated[
        str, typer.Option(metavar="HOST[:PORT]", help="Knative's activator, for nudges.")
    ] = "activator-service.knative-serving.svc.cluster.local",
    keda_listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve floors to KEDA there (Standard mode).")
    ] = None,
    scaler_address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="The same place as KEDA reaches it: ScaledObjects are made with it."),
    ] = None,
    scaler_auth: Annotated[
        str | None,
        typer.Option(
            metavar="[cluster/]NAME", help="(Cluster)TriggerAuthentication with KEDA's certificate for the scaler."
        ),
    ] = None,
    tls_cert: _TlsCert = None,
    tls_key: _TlsKey = None,
    client_ca: _ClientCa = None,
    plain: _Plain = False,
) -> None:
    """Control a cluster: bring InferenceServices up ahead of traffic, as their PrewarmPolicies say.

    In Knative mode a floor is the min-scale of the Revision that has the traffic; in Standard mode it is told to KEDA.
    The InferenceService itself is never written to. Lead times are kept in the state directory, which may be lost.
    """
    from activator_ext.app.cli import cluster

    cluster.controller(
        state=state,
        kubeconfig=kubeconfig,
        namespace=namespace,
        lease=lease,
        activator=activator,
        keda_listen=keda_listen,
        scaler_address=scaler_address,
        scaler_auth=scaler_auth,
        tls_files=(tls_cert, tls_key, client_ca),
        plain=plain,
    )


@app.command(
    "uninstall",
    epilog=_epilog("pilotlight uninstall --lease pilotlight/controller", "kubectl delete -f manifests/crds"),
)
@told
def uninstall(
    kubeconfig: _Kubeconfig = None,
    namespace: Annotated[str, typer.Option(metavar="NAME", help="Only in this namespace; without it in all.")] = "",
    lease: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE/NAME", help="Refuse while a controller holds this Lease: it would raise again."
        ),
    ] = None,
) -> None:
    """Give up every floor in a cluster and remove every ScaledObject of ours.

    For after the controller is gone. What a floor covered is put back: the min-scale that stood there before. Our CRDs
    and the policies in them stay; the second example removes both.
    """
    from activator_ext.app.cli import cluster

    cluster.uninstall(kubeconfig=kubeconfig, namespace=namespace, lease=lease)
