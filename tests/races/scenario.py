"""What happens in one run, drawn from its seed: services with their policies, and a list of things done at instants."""

from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

from activator_ext.adapters.local.manifests import LocalService
from activator_ext.core.model import Bounds, Policy, QueuePolicy, Schedule, ServiceId
from runtime.contract import EngineSpec, Golden
from tests.races.engines import GOLDEN
from tests.races.machine import BEGIN

START_TIMEOUT_S = 90.0
DRAIN_TIMEOUT_S = 40.0


@dataclass(frozen=True)
class Action:
    """One thing done at `at_s`."""

    at_s: float
    kind: str
    service: ServiceId
    numbers: tuple[float, ...] = ()

    def __str__(self) -> str:
        told = " ".join(f"{number:g}" for number in self.numbers)
        return f"{self.at_s:8.3f} {self.kind} {self.service} {told}".rstrip()


@dataclass(frozen=True)
class Planned:
    """A schedule as the checker knows it: in seconds of the run."""

    ready_by_s: float
    until_s: float
    replicas: int
    early: bool


@dataclass(frozen=True)
class Service:
    """One service of a scenario, before any edit."""

    id: ServiceId
    policy: Policy
    declared: bool
    planned: tuple[Planned, ...] = ()
    generation: int = 1

    def local(self) -> LocalService:
        """As the files say it."""
        args = (f"--gen={self.generation}", *(("--declared",) if self.declared else ()))
        golden = Golden(prompt="p", max_tokens=3, tokens=GOLDEN if self.declared else None)
        spec = EngineSpec(
            service=str(self.id),
            served_names=(str(self.id), self.id.name),
            model=f"/models/{self.id.name}",
            args=args,
            golden=golden,
            start_timeout_s=START_TIMEOUT_S,
            drain_timeout_s=DRAIN_TIMEOUT_S,
        )
        return LocalService(
            id=self.id,
            policy=self.policy,
            spec=spec,
            names=(str(self.id), self.id.name),
            file="f.yaml",
            line=1,
            policy_name=None,
        )

    def edited(self, **fields: Any) -> "Service":
        """After an edit."""
        return replace(self, **fields)


@dataclass(frozen=True)
class Scenario:
    """One run. `bad`: the share of engines that lie or fail."""

    seed: int
    services: tuple[Service, ...]
    actions: tuple[Action, ...]
    bad: float

    def without(self, begin: int, end: int) -> "Scenario":
        """The same with fewer actions."""
        return replace(self, actions=self.actions[:begin] + self.actions[end:])


def draw(seed: int) -> Scenario:
    """The scenario of a seed."""
    random = Random(seed)
    services = tuple(_service(random, number) for number in range(random.choice((1, 1, 2, 3))))
    until_s = random.choice((30.0, 90.0, 200.0))
    calm = random.random() < 0.4
    bad = random.choice((0.0, 0.0, 0.2, 0.5, 1.0))
    actions = []
    for _ in range(random.choice((3, 8, 15, 30))):
        kind = random.choices(_KINDS, _CALM if calm else _WILD)[0]
        at_s, service = random.uniform(2.0, until_s), random.choice(services).id
        actions += _actions(random, kind, at_s, service)
    return Scenario(seed, services, tuple(sorted(actions, key=lambda action: action.at_s)), bad)


def _service(random: Random, number: int) -> Service:
    least = 1 if random.random() < 0.1 else 0
    most = max(least, random.choice((1, 1, 1, 2, 3)))
    planned, schedules = _schedule(random) if random.random() < 0.15 else ((), ())
    policy = Policy(
        bounds=Bounds(least, most),
        schedules=schedules,
        queue=QueuePolicy(random.choice((1, 2, 5))),
        cold_start_cost_s=random.choice((1.0, 5.0, 20.0, 60.0)),
        prior_lead_s=random.choice((5.0, 20.0)),
    )
    return Service(ServiceId("test", "abc"[number]), policy, random.random() < 0.5, planned)


def _schedule(random: Random) -> tuple[tuple[Planned, ...], tuple[Schedule, ...]]:
    begin, long, early = random.randint(1, 3), random.randint(1, 2), random.random() < 0.5
    minute, until = BEGIN + timedelta(minutes=begin), BEGIN + timedelta(minutes=begin + long)
    cron, end = f"{minute.minute} {minute.hour} * * *", f"{until.minute} {until.hour} * * *"
    replicas = random.choice((1, 1, 2))
    schedule = Schedule("s", "UTC", end, ready_by=cron if early else None, start=None if early else cron,
                        replicas=replicas)  # fmt: skip
    return (Planned(60.0 * begin, 60.0 * (begin + long), replicas, early),), (schedule,)


_KINDS = (
    *("request", "burst", "hold", "announced", "release", "edit", "policy", "delete", "create"),
    *("kill-engine", "kill-host", "kill-portal", "kill-up", "stall-host", "stall-portal", "stall-up"),
)
_CALM = (50, 10, 8, 4, 5, 6, 3, 2, 4, 0, 0, 0, 0, 0, 0, 0)
_WILD = (40, 8, 6, 4, 4, 6, 3, 3, 5, 8, 3, 3, 4, 2, 2, 2)


def _actions(random: Random, kind: str, at_s: float, service: ServiceId) -> list[Action]:
    """One draw as actions; instants often fall together, as that is where races are."""
    if random.random() < 0.3:
        at_s = float(round(at_s / 5) * 5) + random.choice((0.0, 0.001, 0.01, 0.02))
    leaves = (random.choice((0.0, 0.01, 0.5, 3.0, 10.0, 40.0)),) if random.random() < 0.35 else ()
    match kind:
        case "request":
            return [Action(at_s, kind, service, leaves)]
        case "burst":
            return [Action(at_s + 0.001 * i, "request", service, leaves) for i in range(random.randint(2, 8))]
        case "hold":
            return [Action(at_s, kind, service, (random.choice((1, 1, 2)), random.choice((3.0, 20.0, 60.0))))]
        case "announced":
            ahead_s = random.choice((5.0, 20.0, 60.0))
            return [Action(at_s, kind, service, (random.choice((1, 1, 2)), random.choice((3.0, 20.0)), ahead_s))]
        case "policy":
            numbers = (random.choice((0, 0, 1)), random.choice((1, 1, 2, 3)), random.choice((1.0, 10.0, 30.0)))
            return [Action(at_s, kind, service, numbers)]
        case "kill-up":
            return [Action(at_s, kind, service, (random.choice((0.3, 3.0, 30.0, 75.0)),))]
        case "stall-host" | "stall-portal" | "stall-up":
            return [Action(at_s, kind, service, (random.choice((0.5, 3.0, 12.0, 25.0)),))]
        case _:
            return [Action(at_s, kind, service)]
