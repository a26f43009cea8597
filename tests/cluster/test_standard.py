"""Standard mode on a real KServe and KEDA: our ScaledObject and our scaler carry out floors, and leave nothing."""

import base64
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from activator_ext.adapters.keda_scaler.server import ScalerServer
from activator_ext.adapters.keda_scaler.tls import TlsFiles
from activator_ext.adapters.standard.actuator import HeldByOthers
from activator_ext.adapters.standard.manifest import Authentication
from activator_ext.adapters.standard.objects import SCALED_OBJECTS
from activator_ext.adapters.standard.plan import Standing
from tests.cluster.control_plane import ControlPlane
from tests.cluster.standard_rig import COOLDOWN_S, POLL_S, Rig, until
from tests.unit.adapters.keda_scaler.authority import Authority


@pytest.fixture
async def rig(plane: ControlPlane, namespace: str) -> AsyncIterator[Rig]:
    async with Rig.on(plane, namespace) as rig, rig.scaler():
        yield rig


async def test_a_floor_is_carried_out_and_nothing_is_left(rig: Rig) -> None:
    await rig.at_zero()

    rig.floor(1)
    print(f"\nfloor 0 → 1: Deployment.spec.replicas 1 after {await rig.replicas(1):.2f} s")
    assert (await rig.standing(Standing.SCALED)).message == "ScaledObject chat-prewarm scales it to the floor"

    rig.floor(0)
    print(f"floor 1 → 0: replicas 0 after {await rig.replicas(0):.1f} s (cooldown {COOLDOWN_S} s, poll {POLL_S} s)")

    rig.plane.kubectl("delete", "inferenceservice", "chat", "-n", rig.service.namespace)
    begun = time.monotonic()

    async def nothing_is_left() -> bool:
        return not rig.plane.get("scaledobjects,hpa,deployments", "-n", rig.service.namespace)["items"]

    await until(nothing_is_left, every_s=0.3)
    print(f"InferenceService deleted: no ScaledObject, HPA, Deployment after {time.monotonic() - begun:.1f} s")
    assert await rig.step() is None


@pytest.mark.prove
@pytest.mark.parametrize(("exact", "raised"), [(True, (2, 3, 12, 11)), (False, (2, 3, 9))])
async def test_the_hpa_wants_the_floor(rig: Rig, exact: bool, raised: tuple[int, ...]) -> None:
    rig.settings = replace(rig.settings, exact_hpa=exact)
    await rig.at_zero(most=20)

    for floor in raised:
        rig.floor(floor)
        print(f"\nfloor {floor}, tolerance {0 if exact else 0.1}: replicas after {await rig.replicas(floor):.1f} s")
        await rig.stays(floor, for_s=17)  # one more sync of the HPA
    rig.floor(1)
    print(f"floor 1: replicas after {await rig.replicas(1):.1f} s")
    rig.floor(0)
    print(f"floor 0: replicas after {await rig.replicas(0):.1f} s")


async def test_who_scales_it_too_is_told_and_not_fought(rig: Rig) -> None:
    await rig.at_zero()
    namespace = rig.service.namespace
    rig.plane.kubectl("autoscale", "deployment", "chat-predictor", "--name=mine", "--min=1", "--max=2", "-n", namespace)

    conflict = await rig.standing(Standing.CONFLICT)
    assert conflict.message == "HorizontalPodAutoscaler mine scales chat-predictor too: delete it"

    async def gone() -> bool:
        return not rig.plane.get("scaledobjects", "-n", namespace)["items"]

    await until(gone)
    rig.plane.kubectl("delete", "hpa", "mine", "-n", namespace)
    await rig.standing(Standing.SCALED)
    rig.floor(1)
    await rig.replicas(1)


async def test_an_edit_of_ours_is_told_and_not_undone(rig: Rig) -> None:
    await rig.at_zero()
    path = SCALED_OBJECTS.path(rig.service.namespace, "chat-prewarm")
    edit = {"spec": {"cooldownPeriod": 900}}
    edited = {"fieldManager": "kubectl-edit"}
    await rig.client.send("PATCH", path, edit, content_type="application/merge-patch+json", params=edited)

    for _ in range(2):
        with pytest.raises(HeldByOthers, match=r'conflict with "kubectl-edit".*cooldownPeriod'):
            await rig.step()
    asked = sum(count for key, count in rig.client.requests.items() if "PATCH" in str(key))
    with pytest.raises(HeldByOthers):
        await rig.step()
    assert sum(count for key, count in rig.client.requests.items() if "PATCH" in str(key)) == asked

    rig.plane.kubectl("delete", "scaledobject", "chat-prewarm", "-n", rig.service.namespace)
    await rig.standing(Standing.SCALED)


async def test_keda_and_the_scaler_know_one_another_by_their_certificates(rig: Rig, tmp_path: Path) -> None:
    authority, strangers = Authority("ours"), Authority("strangers")
    certificate, key = authority.issue()
    files = TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    files.certificate.write_bytes(certificate)
    files.key.write_bytes(key)
    files.client_ca.write_bytes(authority.certificate)
    _authenticated(rig, "known", authority, authority)
    _authenticated(rig, "unknown", authority, strangers)
    async with ScalerServer(rig.floors, "127.0.0.1:0", tls=files, report=print) as server:
        rig.scaled_by(f"127.0.0.1:{server.port}")
        rig.settings = replace(rig.settings, authentication=Authentication("unknown"))
        rig.create()
        rig.floor(0)
        await rig.standing(Standing.KEDA_TROUBLE)
        assert server.streams == 0

        rig.settings = replace(rig.settings, authentication=Authentication("known"))
        await rig.standing(Standing.SCALED)
        await rig.replicas(0)
        rig.floor(1)
        print(f"\nby mutual TLS: replicas 1 after {await rig.replicas(1):.2f} s")


def _authenticated(rig: Rig, name: str, scaler: Authority, client: Authority) -> None:
    """A Secret with what KEDA knows the scaler by and shows it, and the TriggerAuthentication that names it."""
    certificate, key = client.issue()
    metadata = {"name": name, "namespace": rig.service.namespace}
    content = {"ca.crt": scaler.certificate, "tls.crt": certificate, "tls.key": key}
    data = {entry: base64.b64encode(value).decode() for entry, value in content.items()}
    parameters = {"caCert": "ca.crt", "tlsClientCert": "tls.crt", "tlsClientKey": "tls.key"}
    references = [{"parameter": parameter, "name": name, "key": entry} for parameter, entry in parameters.items()]
    rig.plane.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data},
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "TriggerAuthentication",
            "metadata": metadata,
            "spec": {"secretTargetRef": references},
        },
    )
