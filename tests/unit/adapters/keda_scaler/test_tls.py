"""Mutual TLS: who has no certificate of the right authority is not heard; renewed files are taken up."""

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from activator_ext.adapters.keda_scaler.floors import Floors, KnownFloor
from activator_ext.adapters.keda_scaler.server import ScalerServer
from activator_ext.adapters.keda_scaler.tls import BadFiles, TlsFiles
from activator_ext.core.model import ServiceId
from tests.unit.adapters.keda_scaler.keda import Keda, ref_bytes

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
CHAT_REF = ref_bytes("team-a", "chat-prewarm", service="chat")


class Authority:
    """Signs certificates, valid now by the machine's clock."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._signed(self._name, self._key, ca=True).public_bytes(serialization.Encoding.PEM)

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        names = [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
        builder = x509.CertificateBuilder(issuer_name=self._name, subject_name=name, public_key=key.public_key())
        return (
            builder.serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def issue(self) -> tuple[bytes, bytes]:
        """(certificate, key)"""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")]), key, ca=False)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return certificate.public_bytes(serialization.Encoding.PEM), pem


def files_of(folder: Path, authority: Authority) -> TlsFiles:
    certificate, key = authority.issue()
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    (folder / "ca.crt").write_bytes(authority.certificate)
    return TlsFiles(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")


def client(authority: Authority, own: Authority | None) -> grpc.ChannelCredentials:
    certificate, key = own.issue() if own else (None, None)
    return grpc.ssl_channel_credentials(authority.certificate, key, certificate)


def server_of(files: TlsFiles) -> ScalerServer:
    floors = Floors(lambda: NOW)
    floors.tell({ServiceId("team-a", "chat"): KnownFloor(1)})
    return ScalerServer(floors, "0.0.0.0:0", tls=files, report=print)


async def heard(port: int, credentials: grpc.ChannelCredentials | None) -> bool:
    async with Keda.to(port, credentials) as keda:
        try:
            return await keda.is_active(CHAT_REF)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return False


async def test_only_who_shows_a_certificate_of_the_authority_is_heard(tmp_path: Path) -> None:
    ours, others = Authority("ours"), Authority("others")
    async with server_of(files_of(tmp_path, ours)) as server:
        assert await heard(server.port, client(ours, ours))
        assert not await heard(server.port, client(ours, None))
        assert not await heard(server.port, client(ours, others))
        assert not await heard(server.port, client(others, ours))
        assert not await heard(server.port, None)


async def test_renewed_files_are_taken_up_and_broken_ones_are_not(tmp_path: Path) -> None:
    old, new = Authority("old"), Authority("new")
    async with server_of(files_of(tmp_path, old)) as server:
        assert await heard(server.port, client(old, old))
        (tmp_path / "tls.key").write_text("half a fi")
        assert await heard(server.port, client(old, old))
        files_of(tmp_path, new)
        assert await heard(server.port, client(new, new))
        assert not await heard(server.port, client(old, old))


@pytest.mark.parametrize(("name", "content", "told"), [("tls.key", None, "cannot read"), ("ca.crt", "x", "no PEM")])
async def test_files_that_cannot_be_used(tmp_path: Path, name: str, content: str | None, told: str) -> None:
    files = files_of(tmp_path, Authority("ours"))
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_text(content)

    with pytest.raises(BadFiles, match=f"{told}.*{name}|{name}.*{told}"):
        await server_of(files).begin()
