"""Who the scaler is, and who may ask it: mutual TLS, its files read again when they change.

KEDA 2.20's external scalers take three things from a TriggerAuthentication: `caCert`, by which it knows the scaler, and
`tlsClientCert` with `tlsClientKey`, by which the scaler knows KEDA. There is no place for a bearer token: it would have
to stand readable in the ScaledObject, and be renewed there. So tokens are not offered.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import grpc


class BadFiles(Exception):
    """A certificate or key cannot be used; the message names the file and the fix."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: our certificate (chain) and key, and the authorities whose clients may ask."""

    certificate: Path
    key: Path
    client_ca: Path


def credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Credentials that demand a client certificate. Raises BadFiles if they cannot be read now.

    The files are looked at for each new connection (a Secret's volume changes under a running process); files that
    cannot be read then leave the last good ones in force.
    """
    last = [_read(files)]

    def now() -> grpc.ServerCertificateConfiguration | None:
        with contextlib.suppress(BadFiles):
            found = _read(files)
            if found != last[0]:
                last[0] = found
                return _configuration(found)
        return None

    # gRPC keeps what it has where the answer is None; its stubs do not know that.
    fetch = cast("Callable[[], grpc.ServerCertificateConfiguration]", now)
    return grpc.dynamic_ssl_server_credentials(_configuration(last[0]), fetch, require_client_authentication=True)


def _configuration(contents: tuple[bytes, bytes, bytes]) -> grpc.ServerCertificateConfiguration:
    certificate, key, client_ca = contents
    return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=client_ca)


def _read(files: TlsFiles) -> tuple[bytes, bytes, bytes]:
    certificate, key, client_ca = (_pem(path) for path in (files.certificate, files.key, files.client_ca))
    return certificate, key, client_ca


def _pem(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadFiles(f"cannot read {path} ({error.strerror}): mount the Secret, or name another file") from error
    if b"-----BEGIN " not in data:
        raise BadFiles(f"{path} is no PEM file: it holds no -----BEGIN line")
    return data
