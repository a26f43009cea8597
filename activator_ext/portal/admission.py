"""May this request go now, must it wait, or is it refused? Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from runtime.contract import Endpoint, Route


@dataclass(frozen=True, slots=True)
class Avoid:
    """The endpoints that just failed this request, and until when (steady clock) they are left alone."""

    endpoints: tuple[Endpoint, ...]
    until_s: float


def choose(
    route: Route, in_flight: Callable[[Endpoint], int], avoid: Avoid | None = None, now_s: float = 0.0
) -> Endpoint | None:
    """The endpoint with the fewest requests in flight, then the least replica id; None if there is none."""
    if avoid is None and len(route.endpoints) == 1:
        return route.endpoints[0]
    shunned = avoid.endpoints if avoid is not None and now_s < avoid.until_s else ()
    candidates = [endpoint for endpoint in route.endpoints if endpoint not in shunned]
    return min(candidates, key=lambda endpoint: (in_flight(endpoint), endpoint.replica), default=None)


def failure_answers(route: Route, entered_at: datetime, now: datetime) -> bool:
    """Whether the route's failure is the answer to a request that began to wait at `entered_at`.

    It is for those that were there when the start failed, and for newer ones until the next try is due. After that a
    newer request waits: it is the demand that the next try needs. (Start failed at 10:00:00, next try 10:00:30: a
    request of 10:00:10 gets 503 with Retry-After 20, one of 10:00:31 waits.)
    """
    if route.failure is None or route.endpoints:
        return False
    return entered_at <= route.failure.at or (route.retry_at is not None and now < route.retry_at)
