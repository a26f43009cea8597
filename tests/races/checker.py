"""What must hold in every run, judged from the truth: each breach is one line with its instant and its rule."""

from collections.abc import Callable
from datetime import datetime

from activator_ext.core.model import LeadSample, ServiceId
from runtime.contract import Failure, FailureCause, ServiceOrder
from runtime.host.replica import LET_GO_S
from tests.races.clients import Request
from tests.races.engines import Engine
from tests.races.machine import BEGIN, Machine
from tests.races.scenario import DRAIN_TIMEOUT_S, START_TIMEOUT_S
from tests.races.truth import Truth

PATIENCE_S = 12.0
"""How long a calm machine may take to end what is not wanted: many times what messages take."""
PROMPT_S = 6.0
"""How long a calm machine may take to begin what is wanted, or to let in who waits: some messages, each under 1 s."""
TERM_GRACE_S = 15.0


class Checker:
    """Looks on. `breaches` is empty after a run without fault."""

    def __init__(self, machine: Machine, truth: Truth) -> None:
        self.breaches: list[str] = []
        self._machine, self._truth = machine, truth
        self._since: dict[tuple[str, object], float] = {}
        self._resets: dict[str, float] = {}
        self._orders: dict[str, ServiceOrder] = {}
        self._sampled: set[tuple[ServiceId, datetime]] = set()
        machine.engines.on_spawn = self._spawned
        machine.engines.on_asked = self._asked
        machine.on_order = self._ordered
        self._learn: Callable[[ServiceId, LeadSample], None] = machine.history.add_lead_sample
        machine.history.add_lead_sample = self._sample  # type: ignore[method-assign]

    @property
    def now_s(self) -> float:
        return self._machine.loop.now_s

    def breach(self, rule: str, text: str) -> None:
        """One more."""
        self.breaches.append(f"{self.now_s:9.3f} {rule}: {text}")

    # As things happen.

    def _ordered(self, order: ServiceOrder) -> None:
        name, before = order.spec.service, self._orders.get(order.spec.service)
        service = ServiceId.parse(name)
        if before is not None and before.spec.args != order.spec.args:
            self._resets[name] = self.now_s
        self._orders[name] = order
        policy = self._truth.policy(service)
        if policy is None or self.now_s - self._truth.edited_s.get(service, -1e9) < 5.0:
            return
        if not policy.bounds.min <= order.replicas <= policy.bounds.max:
            self.breach("bounds", f"{name}: {order.replicas} ordered, allowed {policy.bounds}")
        for hold in self._truth.holds:
            held = max(hold.created_s + 1.0, hold.begins_s) <= self.now_s < hold.until_s - 1.0
            if hold.service == service and held and order.replicas < min(hold.replicas, policy.bounds.max):
                self.breach("hold", f"{name}: {order.replicas} ordered while {hold.id} wants {hold.replicas}")

    def _spawned(self, engine: Engine) -> None:
        service, truth = ServiceId.parse(engine.service), self._truth
        truth.note(service, self.now_s)
        lookback_s = truth.lookback_s(self.now_s)
        others = [other for other in self._machine.engines.alive(engine.service) if other is not engine]
        if same := [other for other in others if other.ordinal == engine.ordinal]:
            self.breach("one-engine", f"{_name(engine)} shares its directory with {_name(same[0])}")
        draining = self.draining()
        serving = [o for o in others if o.pid not in draining and o.generation == engine.generation]
        most = truth.most_wanted(service, self.now_s - lookback_s, self.now_s)
        if len(serving) + 1 > most and not self._replaces(engine):
            why = f"{len(serving)} lived, at most {most} wanted in the last {lookback_s:.0f} s"
            self.breach("demand", f"{_name(engine)} was started; {why}")
        self._back_off(engine)

    def _replaces(self, engine: Engine) -> bool:
        """Whether it takes the place of one that lived when its service was edited: one for one, once."""
        own = [e for e in self._machine.engines.all if e.service == engine.service and e is not engine]
        edited_s = self._truth.edited_s.get(ServiceId.parse(engine.service), 1e9)
        before = [e for e in own if e.generation < engine.generation and e.born_s <= edited_s + 1.0]
        lived = [e for e in before if e.ended_s is None or e.ended_s >= edited_s]
        # A controller that begins does not know what was ordered, and orders it once more.
        begun = sum(at_s >= edited_s for at_s in self._machine.ups_begun_s)
        return sum(e.generation == engine.generation for e in own) < len(lived) * (1 + begun)

    def _back_off(self, engine: Engine) -> None:
        since = max(self._resets.get(engine.service, -1.0), 0.0)
        failures: list[Failure] = []
        for start in self._machine.host.supervisor.view().starts:
            if start.service != engine.service:
                continue
            if start.outcome == "ready":
                failures.clear()
            elif start.failure is not None and start.failure.cause not in _AT_ONCE:
                failures.append(start.failure)
        # Of before the reset arrived, or of the moment in which this start was already on its way.
        failures = [f for f in failures if since + 1.0 < seconds(f.at) < self.now_s - 0.1]
        if not failures:
            return
        least_s = 300.0 if failures[-1].permanent else min(10.0 * 2 ** (len(failures) - 1), 300.0)
        gap_s = self.now_s - seconds(failures[-1].at)
        if gap_s < least_s - 0.01:
            self.breach("back-off", f"{_name(engine)} {gap_s:.2f} s after failure {len(failures)}, not {least_s:.0f}")

    def _sample(self, service: ServiceId, sample: LeadSample) -> None:
        self._learn(service, sample)
        ready_s = seconds(sample.ended_at)
        self._truth.lead_s[service] = max(self._truth.lead_s.get(service, 0.0), sample.lead_s)
        own = [engine for engine in self._machine.engines.all if engine.service == str(service)]
        made = [e for e in own if e.proven_s is not None and -0.001 <= ready_s - e.proven_s < 1.0]
        made.sort(key=lambda engine: ready_s - (engine.proven_s or 0.0))
        if not made or not _proven(made[0]):
            self.breach("sample", f"{service}: a lead time ends at {ready_s:.3f} s, when no engine became ready")
        elif ready_s - sample.lead_s > made[0].born_s + 0.01:
            self.breach("sample", f"{service}: {sample.lead_s:.3f} s is less than {_name(made[0])} took")
        if sample.lead_s > ready_s + 0.01:
            self.breach("sample", f"{service}: {sample.lead_s:.3f} s began before everything")
        if (service, sample.ended_at) in self._sampled and len(made) < 2:
            self.breach("sample", f"{service}: the start that ended at {ready_s:.3f} s counts twice")
        self._sampled.add((service, sample.ended_at))

    def _asked(self, number: int, engine: Engine) -> None:
        """A request arrives at an engine."""
        request = self._truth.requests[number]
        request.asked.append(engine)
        if engine.service == request.service and not _proven(engine):
            self.breach("not-proven", f"request {number} reached {_name(engine)}, which is not proven")
        policy = self._truth.policy(ServiceId.parse(engine.service))
        newer = [e for e in self._machine.engines.alive(engine.service) if e.generation > engine.generation]
        long_s = [self.now_s - (e.proven_s or 0.0) for e in newer if _proven(e) and not e.killed]
        if policy is not None and policy.bounds.max == 1 and self._calm(2 * PATIENCE_S) and max(long_s, default=0) > 5:
            self.breach("old-engine", f"request {number} reached {_name(engine)} though a newer one is ready")

    # Every other second.

    def look(self) -> None:
        """Judge the state as it is."""
        draining = self.draining()
        for service in {*self._truth.services, *(ServiceId.parse(e.service) for e in self._machine.engines.all)}:
            self._truth.note(service, self.now_s)
            alive = self._machine.engines.alive(str(service))
            self._look_at(service, [engine for engine in alive if engine.pid not in draining])
        for engine in self._machine.engines.all:
            if engine.alive:
                bound_s = LET_GO_S + DRAIN_TIMEOUT_S + TERM_GRACE_S + PATIENCE_S
                drains = engine.pid in draining and self._calm(0.0)
                self._lasting("drain", engine.pid, bound_s, drains, f"{_name(engine)} drains on")

    def _look_at(self, service: ServiceId, serving: list[Engine]) -> None:
        truth, calm = self._truth, self._calm(0.0)
        need = truth.wanted(service, self.now_s, early=False)
        missing = calm and len(serving) < need and not self._backs_off(service)
        told = f"{service}: {need} wanted, {len(serving)} live, no start under way"
        self._lasting("nobody-starts", service, PROMPT_S, missing, told)
        ready = [engine for engine in serving if _proven(engine) and not engine.ways.resets]
        waiting = [r for r in truth.open.get(service, {}).values() if not r.asked]
        told = f"{service}: {len(waiting)} wait though {len(ready)} are ready"
        self._lasting("not-let-in", service, PROMPT_S, calm and bool(waiting) and bool(ready), told)
        policy = truth.policy(service)
        keep_s = (policy.cold_start_cost_s if policy is not None else 0.0) + 2 * PATIENCE_S
        most = truth.most_wanted(service, self.now_s - keep_s, self.now_s)
        old = [e for e in serving if e.proven_s is not None and self.now_s - e.proven_s > keep_s]
        # While another one starts the loading lease keeps them all.
        leased = any(engine.proven_s is None for engine in serving)
        over = self._calm(keep_s + 25.0) and len(old) > most and self._settled(service, keep_s) and not leased
        told = f"{service}: {len(old)} stay warm, at most {most} wanted for {keep_s:.0f} s"
        self._lasting("not-let-go", service, PATIENCE_S, over, told)

    def _settled(self, service: ServiceId, keep_s: float) -> bool:
        return self.now_s - self._truth.edited_s.get(service, -1e9) > keep_s

    def _lasting(self, rule: str, what: object, bound_s: float, wrong: bool, text: str) -> None:
        """A breach only if it is so at every look for `bound_s`; told once."""
        if not wrong:
            self._since.pop((rule, what), None)
            return
        since_s = self._since.setdefault((rule, what), self.now_s)
        if self.now_s - since_s > bound_s:
            self.breach(rule, f"{text} (for {self.now_s - since_s:.0f} s)")
            self._since[rule, what] = float("inf")

    def _calm(self, for_s: float) -> bool:
        return self.now_s - self._truth.calm_since_s() >= for_s

    def _backs_off(self, service: ServiceId) -> bool:
        for view in self._machine.host.supervisor.view().services:
            if view.service == str(service):
                return view.retry_at is not None and seconds(view.retry_at) > self.now_s - 1.0
        return False

    def draining(self) -> set[int]:
        """Pids of engines that their host means to end."""
        views = self._machine.host.supervisor.view().services
        return {replica.pid or 0 for view in views for replica in view.replicas if replica.draining}

    # At the end.

    def finish(self) -> None:
        """Judge every request and what is left."""
        for request in self._truth.requests:
            self._judge(request)
        loads = self._machine.portal.door.loads
        if loads.active() or loads.room.total_bytes:
            self.breach("left", f"the portal still counts {loads.active()}")
        for said in self._machine.up.said:
            if "decision failed" in said:
                self.breach("fault", said)

    def _judge(self, request: Request) -> None:
        told = f"request {request.number} of {request.service} at {request.arrived_s:.3f}"
        if request.outcome is None:
            self.breach("lost", f"{told} has no outcome: {request}")
        elif "second outcome" in request.said:
            self.breach("twice", f"{told}: {request.outcome} {request.said}")
        elif request.outcome == "answered":
            by = next(engine for engine in request.asked if engine.pid == request.answered_by)
            if by.service != request.service or request.status != 200:
                self.breach("wrong-model", f"{told} was answered {request.status} by {_name(by)}")
        elif why := self._unexcused(request):
            self.breach("outcome", f"{told} got {request.outcome} at {request.ended_s:.3f}: {why} {request.said}")

    def _unexcused(self, request: Request) -> str:
        """What is wrong with an outcome that is no answer; empty if there was a cause for it."""
        ended_s = request.ended_s or 0.0
        calm = ended_s < self._truth.first_disturbed_s
        match request.outcome:
            case "client_gone" | "portal_died":
                return ""
            case "model_not_found":
                gone_s = self._truth.gone_s.get(ServiceId.parse(request.service), [])
                return "" if any(at_s <= ended_s for at_s in gone_s) else "it was always there"
            case "no_routes" | "stopping":
                return "nothing was disturbed" if calm and ended_s > 3.0 else ""
            case "waiting_timed_out":
                waited_s = ended_s - request.arrived_s
                return "" if waited_s >= START_TIMEOUT_S - 0.1 else f"it waited {waited_s:.1f} s only"
            case "torn":
                return "" if any(self._was_bad(engine) for engine in request.asked) else "its engine was sound"
            case "engine_lost":
                # One that it was sent to may have taken no connection any more, and so is not among the asked.
                own = [e for e in self._machine.engines.all if e.service == request.service]
                if not any(self._was_bad(engine) for engine in own):
                    return "no engine of it died or lied"
                there = [e for e in own if e.born_s <= ended_s and (e.ended_s or ended_s) >= request.arrived_s]
                once = (
                    request.outcome == "engine_lost"
                    and not request.streams
                    and len(request.asked) < 2
                    and len(there) < 2
                )
                return "it was not tried again" if once and ended_s - request.arrived_s < 9.0 else ""
            case outcome if outcome is not None and outcome.startswith("status_") and not calm:
                return ""  # the portal was not told, or not in time, that this engine is let go
            case _:
                service = [e for e in self._machine.engines.all if e.service == request.service]
                return "" if any(self._was_bad(engine) for engine in service) else "no start of it failed"

    def _was_bad(self, engine: Engine) -> bool:
        return bool(set(engine.ways.faults()) - {"start_s", "answer_s", "listens_s"}) or engine.killed


_AT_ONCE = {FailureCause.DIED_AFTER_READY, FailureCause.FROZEN, FailureCause.PORT_TAKEN}


def seconds(at: datetime) -> float:
    """An instant in seconds of the run."""
    return (at - BEGIN).total_seconds()


def _proven(engine: Engine) -> bool:
    return engine.proven_s is not None and not engine.ways.unsteady and not engine.ways.other_names


def _name(engine: Engine) -> str:
    return f"engine {engine.pid} ({engine.service}/{engine.ordinal} edit {engine.generation})"
