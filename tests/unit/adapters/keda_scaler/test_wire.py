"""The bytes are those of KEDA's externalscaler.proto: written out by hand here, field by field."""

import struct

import pytest

from activator_ext.adapters.keda_scaler import wire


def text(number: int, value: str) -> bytes:
    data = value.encode()
    return bytes([number << 3 | 2, len(data)]) + data


def nested(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def test_a_scaled_object_is_read() -> None:
    metadata = nested(3, text(1, "service") + text(2, "chat")) + nested(3, text(1, "tolerance") + text(2, "0"))

    ref = wire.read_ref(text(1, "chat-prewarm") + text(2, "team-a") + metadata)

    assert ref == wire.ScaledObjectRef("chat-prewarm", "team-a", {"service": "chat", "tolerance": "0"})


def test_fields_that_keda_adds_later_are_skipped() -> None:
    assert wire.read_ref(text(1, "x") + text(9, "new")) == wire.ScaledObjectRef("x", "", {})


def test_a_request_for_metrics_is_read() -> None:
    request = wire.read_metrics_request(nested(1, text(1, "x") + text(2, "ns")) + text(2, "pilotlight-floor"))

    assert request == wire.MetricsRequest(wire.ScaledObjectRef("x", "ns", {}), "pilotlight-floor")


def test_answers_are_written() -> None:
    spec = text(1, "f") + b"\x10\x01" + b"\x19" + struct.pack("<d", 1.0)
    value = text(1, "f") + b"\x10\x09" + b"\x19" + struct.pack("<d", 8.9)

    assert wire.active_response(True) == b"\x08\x01"
    assert wire.active_response(False) == b""
    assert wire.metric_spec_response("f", 1.0) == nested(1, spec)
    assert wire.metrics_response("f", 8.9) == nested(1, value)


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x05ab", b"\xff" * 12, text(1, "x")[:-1], b"\x0a\x02\xff\xfe"])
def test_other_bytes_are_not_understood(data: bytes) -> None:
    with pytest.raises(wire.NotUnderstood, match="no ScaledObjectRef"):
        wire.read_ref(data)
