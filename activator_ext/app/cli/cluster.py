"""`pilotlight controller`: its options made one whole."""

from pathlib import Path

import typer

from activator_ext.adapters.kubernetes.resource import Key
from activator_ext.adapters.standard.manifest import Authentication
from activator_ext.app.cli.failures import CliError
from activator_ext.app.cli.keda import tls_of
from activator_ext.app.cluster.run import CannotRun, Options, run
from activator_ext.app.cluster.uninstall import uninstall as give_all_up
from activator_ext.app.streams import tell


def controller(
    *,
    state: Path,
    kubeconfig: Path | None,
    namespace: str,
    lease: str | None,
    activator: str,
    keda_listen: str | None,
    scaler_address: str | None,
    scaler_auth: str | None,
    tls_files: tuple[Path | None, Path | None, Path | None],
    plain: bool,
) -> None:
    """Control the cluster until told to end."""
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CliError(
            f"the state directory {state} cannot be made: {error.strerror}; name another by --state"
        ) from error
    tls = tls_of(*tls_files)
    if tls is not None and scaler_address is not None and scaler_auth is None:
        raise typer.BadParameter("with TLS, KEDA needs a certificate too: name it by --scaler-auth")
    options = Options(
        kubeconfig=kubeconfig,
        namespace=namespace,
        history=state / "cluster.sqlite3",
        activator=activator,
        keda_listen=keda_listen,
        tls=tls,
        plain=plain,
        scaler_address=scaler_address,
        scaler_authentication=None if scaler_auth is None else _authentication(scaler_auth),
        lease=None if lease is None else _lease(lease),
    )
    try:
        run(options)
    except CannotRun as error:
        raise CliError(str(error)) from error


def uninstall(*, kubeconfig: Path | None, namespace: str, lease: str | None) -> None:
    """Give up all that is ours, and say what it was."""
    try:
        removed = give_all_up(kubeconfig, namespace, None if lease is None else _lease(lease), tell)
    except CannotRun as error:
        raise CliError(str(error)) from error
    typer.echo(
        f"floors given up: {removed.floors}, ScaledObjects removed: {removed.scaled_objects}; no floor of ours stays"
    )


def _authentication(text: str) -> Authentication:
    try:
        return Authentication.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _lease(text: str) -> Key:
    namespace, slash, name = text.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise typer.BadParameter(f"{text!r} is no Lease: write --lease NAMESPACE/NAME")
    return Key(namespace, name)
