"""`pilotlight keda-scaler`: its options made one whole, and what does not go together refused."""

from pathlib import Path

import typer

from activator_ext.adapters.keda_scaler.tls import TlsFiles
from activator_ext.app.cli.failures import CliError
from activator_ext.app.keda_scaler import CannotRun, ControllerOptions, run


def keda_scaler(
    *,
    listen: str,
    floors: Path | None,
    controller: str | None,
    token_file: Path | None,
    controller_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    client_ca: Path | None,
    plain: bool,
) -> None:
    """Serve until told to end."""
    if (floors is None) == (controller is None):
        raise typer.BadParameter("give --floors FILE or --controller URL, one of both")
    if controller is None and (token_file or controller_ca):
        raise typer.BadParameter("--token-file and --controller-ca go with --controller")
    tls = tls_of(tls_cert, tls_key, client_ca)
    if tls is not None and plain:
        raise typer.BadParameter("--plain means without TLS: leave it out, or the files of TLS")
    source = floors if controller is None else ControllerOptions(controller, token_file, controller_ca)
    assert source is not None  # noqa: S101 — one of both is given
    try:
        run(listen, source, tls=tls, plain=plain)
    except CannotRun as error:
        raise CliError(str(error)) from error


def tls_of(certificate: Path | None, key: Path | None, client_ca: Path | None) -> TlsFiles | None:
    """The three files of TLS, or none of them."""
    if certificate is None and key is None and client_ca is None:
        return None
    if certificate is None or key is None or client_ca is None:
        raise typer.BadParameter(
            "--tls-cert, --tls-key and --client-ca go together: the scaler shows who it is, and asks KEDA the same"
        )
    return TlsFiles(certificate, key, client_ca)
