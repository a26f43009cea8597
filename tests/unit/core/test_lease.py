"""The loading lease keeps what lives; it starts nothing."""

from activator_ext.core.decide import decide
from activator_ext.core.model import (
    Bounds,
    Config,
    Observation,
    Policy,
    QueuePolicy,
    QueueView,
    ReasonCode,
    ReplicaView,
    ServiceId,
    ServiceObservation,
    State,
    Warmth,
)

from .build import at, replica

CHAT = ServiceId("a", "chat")
CONFIG = Config({CHAT: Policy(bounds=Bounds(0, 2), queue=QueuePolicy(target=1), cold_start_cost_s=20.0)})


def test_of_two_starts_one_failed_and_the_other_goes_on() -> None:
    """Found by seed 118 of tests/races: the failed one was started again, though nobody waited for it."""

    def look(after_s: float, waiting: int, *replicas: ReplicaView, state: State) -> tuple[int, ReasonCode, State]:
        queue = QueueView(at(after_s), waiting=waiting, last_activity_at=at(0 if not waiting else after_s))
        seen = ServiceObservation(replicas, queue)
        decision = decide(at(after_s), Observation({CHAT: seen}), state, CONFIG)
        floor = decision.services[CHAT].floor
        return floor.replicas, floor.reason.code, decision.state

    wanted, _, state = look(0, 2, state=State())
    assert wanted == 2
    wanted, _, state = look(1, 0, replica(Warmth.WARMING), replica(Warmth.WARMING), state=state)
    assert wanted == 2
    wanted, _, state = look(60, 0, replica(Warmth.WARMING), state=state)
    assert wanted == 1, "the other one failed, and nobody waits for two"
    wanted, reason, _ = look(61, 1, replica(Warmth.WARMING), state=state)
    assert (wanted, reason) == (1, ReasonCode.REQUESTS)
