"""Plays one scenario on a simulated machine and gives what was breached, and a digest of all that happened."""

import asyncio
import hashlib
import signal
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random

from activator_ext.app.views import HoldRequest, InvalidRequest, UnknownService
from activator_ext.core.model import Bounds, ServiceId
from tests.races.checker import Checker, seconds
from tests.races.clients import Client, Request
from tests.races.engines import FIRST_PID, Engines
from tests.races.machine import Machine
from tests.races.net import Network
from tests.races.scenario import START_TIMEOUT_S, Action, Scenario, Service
from tests.races.seams import simulated
from tests.races.truth import HeldFloor, Truth
from tests.races.virtual_loop import KERNEL, Process, VirtualLoop
from tests.races.ways import Ways, draw_ways
from tests.races.wire import Sockets, Wire

LOOK_S = 2.0
"""How often the state is judged; what is wrong for a moment only is judged as it happens."""
RECOVERY_S = 40.0
"""After a process died or stood still: it is begun again, heard again (25 s of silence count as unknown), settles."""


@dataclass(frozen=True)
class Result:
    """Of one run."""

    breaches: tuple[str, ...]
    story: tuple[str, ...]
    starts: int
    requests: int
    virtual_s: float

    @property
    def digest(self) -> str:
        """Equal for equal runs."""
        return hashlib.sha256("\n".join(self.story).encode()).hexdigest()[:16]

    @property
    def rule(self) -> str | None:
        """The rule that was breached first."""
        return self.breaches[0].split()[1] if self.breaches else None


def play(scenario: Scenario) -> Result:
    """Play it."""
    return Run(scenario).play()


class Run:
    """One run."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._random = Random(f"run {scenario.seed}")
        self.loop = VirtualLoop(Random(f"turns {scenario.seed}"))
        self._ways = Random(f"ways {scenario.seed}")
        self._engines = Engines(self.loop, Random(f"engines {scenario.seed}"), self._draw)
        self._sockets = Sockets(Wire(self.loop, self._random))
        self._truth = Truth()
        self.loop.connect = Network(self._engines, self.loop).connect
        self._story: list[str] = []
        self._over = False

    def play(self) -> Result:
        """To the end."""
        try:
            with simulated(self._engines, self.loop, self._sockets.namespace()):
                self.loop.play(self._main())
            for fault in self.loop.faults:
                self._checker.breach("fault", fault)
        finally:
            self._machine.history.close()
        return Result(
            tuple(self._checker.breaches),
            tuple(self._story),
            len(self._engines.all),
            len(self._truth.requests),
            self.loop.now_s,
        )

    def _draw(self) -> Ways:
        # What starts after the last action is honest, so that the run can come to rest.
        last_s = self._scenario.actions[-1].at_s if self._scenario.actions else 0.0
        ways = draw_ways(self._ways, self._scenario.bad if self.loop.now_s <= last_s else 0.0)
        self._tell(f"engine {FIRST_PID + len(self._engines.all)} will be {' '.join(ways.faults())}")
        return ways

    def _tell(self, text: str) -> None:
        self._story.append(f"{self.loop.now_s:9.3f} {text}")

    async def _main(self) -> None:
        for service in self._scenario.services:
            self._truth.services[service.id] = service
        files = {each.id: each.local() for each in self._scenario.services}
        self._machine = Machine(self.loop, self._random, self._engines, self._sockets, files)
        self._checker = Checker(self._machine, self._truth)
        self._truth.disturbed_s = (0.0, 3.0)  # everything begins
        looking = self.loop.begin(KERNEL, self._look())
        for action in self._scenario.actions:
            await asyncio.sleep(max(0.0, action.at_s - self.loop.now_s))
            self._tell(str(action).split(maxsplit=1)[1])
            self._do(action)
        await self._rest()
        looking.cancel()
        self._checker.finish()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self._checker.look()

    async def _rest(self) -> None:
        """Until nothing is wanted and nothing lives that is not: at the latest after the longest that it may take."""
        keep_s = max((s.policy.cold_start_cost_s for s in self._truth.services.values()), default=0.0)
        ends = [hold.until_s for hold in self._truth.holds]
        ends += [plan.until_s for service in self._truth.services.values() for plan in service.planned]
        # A start takes 120 s at most and may fail once more; what it then answers, and the keeping, come after it.
        last_s = max([self.loop.now_s, self._truth.calm_since_s(), *ends]) + 2 * START_TIMEOUT_S + keep_s + 400.0
        while self.loop.now_s < last_s:
            await asyncio.sleep(5.0)
            if self.loop.now_s > max([0.0, *ends]) and self._at_rest():
                return
        if not self._at_rest():
            left = [f"{e.service} {e.pid}" for e in self._engines.all if e.alive]
            self._checker.breach("rest", f"it does not come to rest; alive: {left}")

    def _at_rest(self) -> bool:
        alive: dict[str, int] = {}
        for engine in self._engines.all:
            if engine.alive:
                alive[engine.service] = alive.get(engine.service, 0) + (engine.proven_s is not None)
                if engine.proven_s is None:
                    return False
        wanted = {str(s.id): s.policy.bounds.min for s in self._truth.services.values() if s.policy.bounds.min}
        calm = self.loop.now_s > self._truth.calm_since_s()
        return calm and alive == wanted and not any(self._truth.open.values())

    # What is done.

    def _do(self, action: Action) -> None:
        kind, service = action.kind, action.service
        match kind:
            case "request":
                self._request(service, action.numbers[0] if action.numbers else None)
            case "hold" | "announced":
                self.loop.begin(self._machine.up.process, self._hold(service, action.numbers))
            case "release":
                self.loop.begin(self._machine.up.process, self._release(service))
            case "edit" | "policy" | "delete" | "create":
                self._edit(action)
            case "kill-engine":
                self._kill_engine(service)
            case _:
                self._disturb(kind, action.numbers)

    def _request(self, service: ServiceId, leaves_s: float | None) -> None:
        portal = self._machine.portal
        if not portal.process.alive:
            return
        streams = self._random.random() < 0.3
        request = Request(len(self._truth.requests), str(service), self.loop.now_s, leaves_s, streams)
        self._truth.requests.append(request)
        self._truth.open.setdefault(service, {})[request.number] = request
        self._truth.note(service, self.loop.now_s)

        def over() -> None:
            if request.outcome is None:
                request.outcome, request.ended_s = "portal_died", self.loop.now_s
            self._truth.open[service].pop(request.number, None)
            self._truth.note(service, self.loop.now_s)
            self._tell(f"request {request.number} {request.outcome} {request.status or ''}")

        async def carried() -> None:
            await Client(portal.public, request, self.loop.time).run()
            portal.process.on_death.remove(over)
            over()

        portal.process.on_death.append(over)
        self.loop.begin(portal.process, carried())

    async def _hold(self, service: ServiceId, numbers: tuple[float, ...]) -> None:
        replicas, for_s, *ahead = numbers
        now = self._machine.clock()
        ready_by = now + timedelta(seconds=ahead[0]) if ahead else None
        asked = HoldRequest(service=str(service), for_s=for_s, replicas=int(replicas), ready_by=ready_by)
        try:
            view = await self._machine.up.facade.add_hold(asked, None)
        except (InvalidRequest, UnknownService):
            return
        begins_s = seconds(view.ready_by or view.created_at)
        hold = HeldFloor(view.id, service, view.replicas, self.loop.now_s, begins_s, seconds(view.until))
        self._truth.holds.append(hold)
        self._truth.note(service, self.loop.now_s)

    async def _release(self, service: ServiceId) -> None:
        for hold in self._truth.holds:
            if hold.service == service and hold.until_s > self.loop.now_s:
                self._truth.note(service, self.loop.now_s)
                if await self._machine.up.facade.release_hold(hold.id):
                    hold.until_s = self.loop.now_s
                return

    def _edit(self, action: Action) -> None:
        service, known = action.service, self._truth.services.get(action.service)
        self._truth.last[service] = known or next(each for each in self._scenario.services if each.id == service)
        self._truth.note(service, self.loop.now_s)
        match action.kind:
            case "create" if known is None:
                made = next(each for each in self._scenario.services if each.id == service)
                self._put(made.edited(generation=100 + len(self._story)))
            case "delete" if known is not None:
                del self._truth.services[service]
                self._truth.gone_s.setdefault(service, []).append(self.loop.now_s)
            case "edit" if known is not None:
                self._put(known.edited(generation=known.generation + 1))
            case "policy" if known is not None:
                least, most, cost_s = action.numbers
                bounds = Bounds(int(least), int(max(least, most)))
                self._put(known.edited(policy=replace(known.policy, bounds=bounds, cold_start_cost_s=cost_s)))
            case _:
                return
        self._truth.edited_s[service] = self.loop.now_s
        self._truth.note(service, self.loop.now_s)
        self._machine.edit({each.id: each.local() for each in self._truth.services.values()})

    def _put(self, service: Service) -> None:
        self._truth.services[service.id] = service

    def _kill_engine(self, service: ServiceId) -> None:
        alive = self._engines.alive(str(service))
        if alive:
            engine = self._random.choice(alive)
            engine.killed = True
            self._engines.end(engine, -signal.SIGKILL)

    def _disturb(self, kind: str, numbers: tuple[float, ...]) -> None:
        machine, (what, name) = self._machine, kind.split("-")
        process: Process = getattr(machine, name).process
        if what == "stall":
            process.stalled_until_s = max(process.stalled_until_s, self.loop.now_s + numbers[0])
            self._truth.disturb(self.loop.now_s, numbers[0] + RECOVERY_S)
            return
        self._truth.disturb(self.loop.now_s, (numbers[0] if numbers else 2.0) + RECOVERY_S)
        if not process.alive:
            return
        for engine in machine.engines_of(process):
            engine.killed = True
        process.kill()
        if name == "up":
            self.loop.call_later(numbers[0], machine.begin_up)
