"""Every bound and rhythm of the portal, in one place, with its default."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What the portal allows in all; the limits of one service's room come with its route (`contract.Waiting`)."""

    total_requests: int = 2000
    """Requests that may wait at once, all services together. Each costs a connection and its kept body."""

    total_bytes: int = 512 * 2**20
    """Bytes of bodies that may wait at once, all services together."""

    kept_body_bytes: int = 8 * 2**20
    """A body up to this is kept until the first response byte, and so can be retried; a larger one is streamed."""

    heartbeat_after_s: float = 3.0
    """How long a streaming client waits in silence; until then a failure still has a status of its own."""

    heartbeat_every_s: float = 2.0
    """Between two progress comments to a waiting streaming client."""

    retry_grace_s: float = 10.0
    """How long an endpoint that just failed is avoided by its request while no other endpoint is there.

    Its death usually reaches the table within this time; if it did not, the same endpoint is tried once more.
    """

    retry_after_s: int = 5
    """`Retry-After` of a full room or a timeout while nobody knows when the start will be done."""

    connect_s: float = 5.0
    """How long an engine may take to accept a connection."""

    head_s: float = 10.0
    """How long a request's head may take from its first byte: longer ones are slow on purpose (slow loris)."""

    body_idle_s: float = 60.0
    """How long nothing more may come of a body that is being read."""

    keep_alive_s: float = 75.0
    """How long a connection may stay open without a request; above the 60 s for which clients commonly keep theirs."""

    stalled_s: float = 300.0
    """How long a client may take nothing of an answer that is there for it; then its connection is closed."""

    target_bytes: int = 8192
    """The longest request target."""

    head_bytes: int = 64 * 2**10
    """The longest request head, target and all fields together."""

    fields: int = 100
    """The most header fields of one request."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the portal speaks with the controller and, when that is gone, with the hosts."""

    debounce_s: float = 0.01
    """After a 0 ↔ n change, how long further changes are gathered into one report (at most 0.02)."""

    unhurried_s: float = 0.25
    """The same while nothing waits: a service's running requests left or reached zero."""

    active_every_s: float = 1.0
    """Between two reports while anything waits or runs."""

    full_every_s: float = 10.0
    """Between two full reports, zeros included, whether or not anything happens."""

    reconnect_s: float = 0.2
    """Between two attempts to reach the controller."""

    wake_every_s: float = 1.0
    """Between two asks to a host while the controller is gone and a request waits."""

    post_s: float = 5.0
    """How long a report or a wake may take."""
