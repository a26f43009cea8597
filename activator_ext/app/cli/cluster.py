"""`pilotlight controller`: its options made one whole."""

from pathlib import Path

from activator_ext.app.cli.failures import CliError
from activator_ext.app.cli.keda import tls_of
from activator_ext.app.cluster.run import CannotRun, Options, run


def controller(
    *,
    state: Path,
    kubeconfig: Path | None,
    namespace: str,
    activator: str,
    keda_listen: str | None,
    scaler_address: str | None,
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
    options = Options(
        kubeconfig=kubeconfig,
        namespace=namespace,
        history=state / "cluster.sqlite3",
        activator=activator,
        keda_listen=keda_listen,
        tls=tls_of(*tls_files),
        plain=plain,
        scaler_address=scaler_address,
    )
    try:
        run(options)
    except CannotRun as error:
        raise CliError(str(error)) from error
