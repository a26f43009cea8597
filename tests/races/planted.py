"""Faults planted into the product, to show that the checker finds them: one that finds none of these proves nothing.

Each is a name, what it does, and the rules of which at least one must be breached.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from activator_ext.app import routes
from activator_ext.app.controller import Controller
from activator_ext.app.learning import Learner
from activator_ext.core import decide as deciding
from activator_ext.core import warmth
from activator_ext.core.model import LeadSample, StartKind
from activator_ext.portal import exchange
from activator_ext.portal.door import Door
from activator_ext.portal.loads import Loads
from activator_ext.portal.refusals import Refused, stopping
from activator_ext.portal.reporter import Reporter
from activator_ext.portal.room import Bells
from activator_ext.portal.table import Table
from runtime.contract import Endpoint, Mark
from runtime.engine import start as starting
from runtime.engine.running import RunningEngine
from runtime.host import supervisor
from runtime.host.plan import Phase, Start, Stop, plan


@dataclass(frozen=True)
class Planted:
    """One planted fault: `plant` gives the patches that make it."""

    name: str
    rules: frozenset[str]
    plant: Callable[[], list[Any]]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """While the fault is there."""
        with ExitStack() as stack:
            for patch in self.plant():
                stack.enter_context(patch)
            yield


def _on(owner: object, name: str, made: Callable[[Any], Any]) -> list[Any]:
    """The method `name` replaced by what `made` makes of the real one."""
    return [mock.patch.object(owner, name, made(getattr(owner, name)))]


def _every_other(real: Callable[..., Any]) -> Callable[..., Any]:
    calls = {"count": 0}

    def sometimes(*args: Any, **named: Any) -> Any:
        calls["count"] += 1
        return real(*args, **named) if calls["count"] % 2 else None

    return sometimes


def _wake_lost() -> list[Any]:
    def made(_: Any) -> Any:
        def portal_reported(self: Controller, report: Any) -> None:
            self.world.take_report(report)

        return portal_reported

    return _on(Controller, "portal_reported", made)


def _before_golden() -> list[Any]:
    async def ask_golden(*_: Any, **__: Any) -> tuple[int, ...]:
        return (7, 11, 13)

    return [mock.patch.object(starting, "ask_golden", ask_golden)]


def _planned(made: Callable[..., Any]) -> list[Any]:
    return [mock.patch.object(supervisor, "plan", made)]


def _back_off_ignored() -> list[Any]:
    return [mock.patch.object(supervisor, "wait_s", return_value=0.0)]


def _one_too_many() -> list[Any]:
    return _planned(lambda **now: plan(**now | {"wanted": now["wanted"] + bool(now["wanted"])}))


def _nothing_stopped() -> list[Any]:
    return _planned(lambda **now: tuple(step for step in plan(**now) if not isinstance(step, Stop)))


def _draining_forgotten() -> list[Any]:
    """The ordinal of a replica that still drains is given away."""
    return _planned(
        lambda **now: plan(**now | {"replicas": [r for r in now["replicas"] if r.phase is not Phase.DRAINING]})
    )


def _stale_kept() -> list[Any]:
    def kept(**now: Any) -> Any:
        stale = {r.ordinal for r in now["replicas"] if r.digest != now["digest"]}
        return tuple(s for s in plan(**now) if not (isinstance(s, Stop) and s.ordinal in stale))

    return _planned(kept)


def _start_lost() -> list[Any]:
    calls = {"count": 0}

    def some(**now: Any) -> Any:
        steps = plan(**now)
        calls["count"] += any(isinstance(step, Start) for step in steps)
        return () if calls["count"] % 3 == 2 else steps

    return _planned(some)


def _holds_forgotten() -> list[Any]:
    return [mock.patch.object(deciding, "hold_plans", return_value=())]


def _bounds_ignored() -> list[Any]:
    return [mock.patch.object(warmth, "_bounded", lambda wanted, _bounds: wanted)]


def _kept_forever() -> list[Any]:
    def made(real: Any) -> Any:
        def queue_demands(now: Any, queue: Any, policy: Any, known: Any) -> Any:
            return real(now, queue, replace(policy, cold_start_cost_s=policy.cold_start_cost_s + 600), known)

        return queue_demands

    def also(real: Any) -> Any:
        def needs(now: Any, service: Any, policy: Any, state: Any) -> Any:
            return real(now, service, replace(policy, cold_start_cost_s=policy.cold_start_cost_s + 600), state)

        return needs

    return _on(deciding, "queue_demands", made) + _on(deciding, "needs", also)


def _place_kept() -> list[Any]:
    """Whoever leaves is counted on."""
    return [mock.patch.object(Loads, "leave", return_value=None)]


def _running_kept() -> list[Any]:
    return _on(Loads, "end", _every_other)


def _bell_dropped() -> list[Any]:
    return _on(Bells, "ring", _every_other)


def _edge_dropped() -> list[Any]:
    """A service that nobody waited for is not reported at once, nor at all until the next full report."""
    return [mock.patch.object(Reporter, "edge", return_value=None)]


def _delta_dropped() -> list[Any]:
    calls = {"count": 0}

    def made(real: Any) -> Any:
        def after(self: Table, delta: Any) -> Table:
            calls["count"] += 1
            if calls["count"] % 3:
                return real(replace(self, version=delta.version - 1), delta)  # type: ignore[no-any-return]
            return self

        return after

    return _on(Table, "after", made)


def _warming_admitted() -> list[Any]:
    """A replica is given requests as soon as it has an address."""

    real_route = routes._route

    def eager(service: Any, view: Any, host_socket: Any, eta_at: Any, created_at: Any) -> Any:
        route = real_route(service, view, host_socket, eta_at, created_at)
        found = (
            ()
            if view is None
            else tuple(Endpoint(replica=r.id, url=r.url) for r in view.replicas if r.url and not r.draining)
        )
        return route.model_copy(update={"endpoints": found})

    return [mock.patch.object(routes, "_route", eager)]


def _failed_sample() -> list[Any]:
    """A start that failed teaches a lead time."""

    def made(real: Any) -> Any:
        def finished(self: Any, world: Any, service: Any, start: Any) -> None:
            if start.outcome == "failed" and start.failure is not None and Mark.T0 in start.marks:
                lead_s = max((start.failure.at - start.marks[Mark.T0]).total_seconds(), 0.0)
                self._history.add_lead_sample(service, LeadSample(StartKind.COLD_NODE, lead_s, start.failure.at))
            real(self, world, service, start)

        return finished

    return _on(Learner, "_finished", made)


def _cut_short() -> list[Any]:
    """A scale-down does not wait for running answers."""

    def made(real: Any) -> Any:
        async def stop(self: Any, _drain_s: float) -> None:
            self._process.kill()
            await real(self, 0.0)

        return stop

    return _on(RunningEngine, "stop", made)


def _no_second_try() -> list[Any]:
    return [mock.patch.object(exchange.Exchange, "_attempts_left", 1)]


def _refused_early() -> list[Any]:
    """Whoever waits is refused when the table changes."""
    calls = {"count": 0}

    def made(real: Any) -> Any:
        def admit(self: Door, service: str, ticket: Any, avoid: Any) -> Any:
            calls["count"] += ticket is not None
            if ticket is not None and calls["count"] % 7 == 6:
                raise Refused(stopping())
            return real(self, service, ticket, avoid)

        return admit

    return _on(Door, "admit", made)


PLANTED = (
    Planted("wake-lost", frozenset({"nobody-starts", "outcome", "lost"}), _wake_lost),
    Planted("admitted-before-golden", frozenset({"not-proven"}), _before_golden),
    Planted("back-off-ignored", frozenset({"back-off"}), _back_off_ignored),
    Planted("one-too-many", frozenset({"demand", "bounds"}), _one_too_many),
    Planted("nothing-stopped", frozenset({"not-let-go", "rest"}), _nothing_stopped),
    Planted("ordinal-given-away", frozenset({"one-engine"}), _draining_forgotten),
    Planted("old-engine-kept", frozenset({"old-engine", "not-let-go", "rest"}), _stale_kept),
    Planted("start-lost", frozenset({"nobody-starts", "outcome"}), _start_lost),
    Planted("holds-forgotten", frozenset({"hold", "nobody-starts"}), _holds_forgotten),
    Planted("bounds-ignored", frozenset({"bounds"}), _bounds_ignored),
    Planted("kept-too-long", frozenset({"not-let-go", "rest"}), _kept_forever),
    Planted("place-not-given-back", frozenset({"left", "not-let-go", "rest"}), _place_kept),
    Planted("end-not-counted", frozenset({"left", "not-let-go", "rest"}), _running_kept),
    Planted("bell-dropped", frozenset({"not-let-in", "outcome"}), _bell_dropped),
    Planted("edge-dropped", frozenset({"nobody-starts"}), _edge_dropped),
    Planted("delta-dropped", frozenset({"not-let-in", "outcome", "not-proven"}), _delta_dropped),
    Planted("warming-admitted", frozenset({"not-proven"}), _warming_admitted),
    Planted("failure-taught", frozenset({"sample"}), _failed_sample),
    Planted("answer-cut-short", frozenset({"outcome"}), _cut_short),
    Planted("no-second-try", frozenset({"outcome"}), _no_second_try),
    Planted("refused-early", frozenset({"outcome"}), _refused_early),
)
