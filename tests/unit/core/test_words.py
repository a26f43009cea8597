"""The core's words and the wire's are the same, and values say themselves."""

from enum import StrEnum

import pytest

from activator_ext.core import model
from activator_ext.core.model import Reason, ReasonCode, ServiceId
from runtime import contract


@pytest.mark.parametrize(
    ("core", "wire"),
    [
        pytest.param(model.Warmth, contract.Warmth, id="warmth"),
        pytest.param(model.StartKind, contract.StartKind, id="start kind"),
    ],
)
def test_core_and_wire_speak_the_same_words(core: type[StrEnum], wire: type[StrEnum]) -> None:
    assert {word.name: word.value for word in core} == {word.name: word.value for word in wire}


NUMBERS: dict[str, float | str] = {
    "waiting": 3,
    "running": 1,
    "idle_s": 12.6,
    "keep_s": 600.0,
    "name": "office",
    "ready_by": "09:00",
    "until": "18:00",
    "lead_s": 41.2,
    "hold": "h1",
    "min": 1,
    "max": 2,
    "wanted": 5,
    "warming": 1,
}


@pytest.mark.parametrize("code", list(ReasonCode))
def test_every_reason_says_itself(code: ReasonCode) -> None:
    text = Reason(code, NUMBERS).text
    assert text
    assert "{" not in text


def test_reason_text_carries_its_numbers() -> None:
    reason = Reason(ReasonCode.IDLE_KEEP, {"idle_s": 12.6, "keep_s": 600.0})
    assert reason.text == "idle for 13 s of the 600 s that one cold start is worth"


@pytest.mark.parametrize(
    ("text", "service"),
    [
        pytest.param("team-a/chat", ServiceId("team-a", "chat"), id="full name"),
        pytest.param("chat", ServiceId("default", "chat"), id="bare name"),
    ],
)
def test_service_is_read(text: str, service: ServiceId) -> None:
    assert ServiceId.parse(text) == service
    assert str(service) == f"{service.namespace}/{service.name}"


@pytest.mark.parametrize("text", ["", "/", "a/", "/b", "a/b/c"])
def test_what_is_no_service_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write NAME or NAMESPACE/NAME"):
        ServiceId.parse(text)
