"""Mutual TLS: who has no certificate of the right authority is not heard; renewed files are taken up."""

from datetime import UTC, datetime
from pathlib import Path

import grpc
import grpc.aio
import pytest

from activator_ext.adapters.keda_scaler.floors import Floors, KnownFloor
from activator_ext.adapters.keda_scaler.server import ScalerServer
from activator_ext.adapters.keda_scaler.tls import BadFiles, TlsFiles
from activator_ext.core.model import ServiceId
from tests.unit.adapters.keda_scaler.authority import Authority
from tests.unit.adapters.keda_scaler.keda import Keda, ref_bytes

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
CHAT_REF = ref_bytes("team-a", "chat-prewarm", service="chat")


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
