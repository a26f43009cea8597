"""A sealed door: nobody's, back at the beginning, and for a new host alone."""

from datetime import UTC, datetime

import pytest

from runtime.ready.gate_door import Door, State
from runtime.ready.gate_routes import Audience

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def test_a_sealed_door_knows_nobody_and_admits_nobody() -> None:
    door = Door("o" * 40, NOW)
    door.move(State.WARMED, NOW)
    assert door.seal(NOW)
    assert door.state is State.STARTING
    assert not door.knows(b"o" * 40)
    for credential in (None, b"o" * 40, b""):
        assert door.judge(Audience.CLIENTS, credential) is not None
    door.renew("n" * 40, NOW)
    assert door.knows(b"n" * 40)
    assert not door.knows(b"o" * 40)
    assert door.judge(Audience.CLIENTS, None) is not None, "the new host opens it, once it has proven the engine"
    assert door.judge(Audience.CLIENTS, b"n" * 40) is None


def test_what_a_client_has_asked_is_in_no_image() -> None:
    door = Door("o" * 40, NOW)
    door.move(State.MINIMUM, NOW)
    door.served = True
    assert not door.seal(NOW)
    assert door.knows(b"o" * 40)
    assert door.state is State.MINIMUM


def test_an_engine_that_has_a_host_takes_no_other() -> None:
    door = Door("o" * 40, NOW)
    with pytest.raises(ValueError, match="has a host"):
        door.renew("n" * 40, NOW)
    assert door.knows(b"o" * 40)
