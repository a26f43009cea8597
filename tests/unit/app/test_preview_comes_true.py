"""What `preview` says beforehand is what the real loop then does, run over days in fast time.

The controller, its loop, its decisions and its history are the real ones; the host is a fake whose starts take exactly
the lead time that is planned with, and time is virtual. Compared is every moment at which the order to the host changed
and every moment at which a replica became ready.
"""

import asyncio
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import available_timezones

import pytest

from activator_ext.adapters.history import History
from activator_ext.app.controller import Controller
from activator_ext.app.metrics import Metrics
from activator_ext.app.preview import preview_view
from activator_ext.app.routes import RouteFeed
from activator_ext.app.views import PreviewView
from activator_ext.core.leadtime import LeadTimes
from activator_ext.core.model import Bounds, Policy, Schedule, StartKind
from runtime.contract import HostEvents, Lease, ServiceOrder
from tests.unit.app.bench import CHAT, local
from tests.unit.app.fake_host import FakeHost
from tests.unit.app.virtual_time import VirtualLoop, clock_of, run_virtually
from tests.unit.core.walk import changes, random_cron, utc_minute

DAY = timedelta(days=1)
ZONES = sorted(available_timezones())
# One tick of the clock, and what the loop lets pass between two events that come together.
SLACK = timedelta(seconds=0.02)

Step = tuple[datetime, int]


@dataclass
class Run:
    """What happened: each change of the number of replicas ordered, and of those ready."""

    ordered: list[Step]
    ready: list[Step]


class TimedHost(FakeHost):
    """A host whose starts are done after `lead_s`, each for itself."""

    def __init__(self, loop: VirtualLoop, begin: datetime, lead_s: float) -> None:
        super().__init__(begin)
        self._loop, self._begun, self._lead_s = loop, begin, lead_s
        self.controller: Controller | None = None
        self.run = Run([], [])

    async def order(self, order: ServiceOrder) -> None:
        self.now = clock_of(self._loop, self._begun)
        before = {replica.start_id for replica in self.replicas(str(CHAT))}
        await super().order(order)
        note(self.run.ordered, self.now, order.replicas)
        self._note_ready()
        for replica in self.replicas(str(CHAT)):
            if replica.start_id not in before:
                self._loop.call_later(self._lead_s, self._done, replica.start_id)

    def _done(self, start_id: str) -> None:
        self.now = clock_of(self._loop, self._begun)
        self.ready(str(CHAT), start_id)
        self._note_ready()
        assert self.controller is not None
        self.controller.host_changed(HostEvents(host=self.name, revision=-1))

    def _note_ready(self) -> None:
        note(self.run.ready, self.now, sum(replica.ready_at is not None for replica in self.replicas(str(CHAT))))


def note(steps: list[Step], at: datetime, value: int) -> None:
    """Add a step where the value changed; what changes twice at once is one step, or none."""
    if steps and at - steps[-1][0] <= SLACK:
        steps.pop()
    if (steps[-1][1] if steps else 0) != value:
        steps.append((at, value))


def happens(policy: Policy, begin: datetime, days: float, history: Path) -> Run:
    """Run the real loop over [begin, begin + days)."""
    loop = VirtualLoop()
    host = TimedHost(loop, begin, policy.prior_lead_s)
    memory = History(history, lambda: clock_of(loop, begin))
    controller = Controller(
        host=host,
        history=memory,
        metrics=Metrics("0"),
        feed=RouteFeed(),
        clock=lambda: clock_of(loop, begin),
        lease=Lease(),
        report=lambda _: None,
    )
    host.controller = controller
    controller.take_services({CHAT: local(policy=policy)})

    async def days_pass() -> None:
        job = asyncio.create_task(controller.run())
        await asyncio.sleep(days * 86400)
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)

    run_virtually(days_pass(), loop)
    memory.close()
    return host.run


def foretold(view: PreviewView, policy: Policy) -> Run:
    """The steps that the preview means: at each moment the most replicas that any of its windows wants.

    What a start adds: it takes the lead time, and while one is under way no replica is let go (loading lease).
    """
    begin, end, lead = view.from_, view.to, timedelta(seconds=policy.prior_lead_s)
    spans = [(max(w.asked_at, begin), w.until, w.replicas) for w in view.windows]
    due = sorted({instant for since, until, _ in spans for instant in (since, until)})
    run, born = Run([], []), list[datetime]()
    while due and (at := due.pop(0)) < end:
        wanted = max((replicas for since, until, replicas in spans if since <= at < until), default=0)
        if any(birth + lead > at for birth in born):
            wanted = max(wanted, len(born))
        if wanted > len(born):
            due = sorted({*due, at + lead})
        born = (born + [at] * wanted)[:wanted]
        note(run.ordered, at, wanted)
        note(run.ready, at, sum(birth + lead <= at for birth in born))
    return run


def same(told: list[Step], happened: list[Step]) -> bool:
    return [value for _, value in told] == [value for _, value in happened] and all(
        abs(one - other) <= SLACK for (one, _), (other, _) in zip(told, happened, strict=True)
    )


def random_policy(rng: random.Random, zone: str, near: datetime | None) -> Policy:
    """One to three schedules of a zone; a third of them say `start`."""
    schedules = []
    for index in range(rng.randint(1, 3)):
        begins, until = (str(random_cron(rng, dense=rng.random() < 0.9, near=near)) for _ in range(2))
        begin = {"start": begins} if rng.random() < 0.34 else {"ready_by": begins}
        schedules.append(Schedule(f"s{index}", zone, until, replicas=rng.randint(1, 3), **begin))
    lead_s = float(rng.choice([1, 44, 300, 900, 5400]))
    return Policy(Bounds(0, rng.randint(1, 3)), tuple(schedules), cold_start_cost_s=600.0, prior_lead_s=lead_s)


def judge(seed: int, directory: Path, days: float) -> None:
    rng = random.Random(seed)
    zone = rng.choice(ZONES)
    begin = utc_minute(rng, datetime(1995, 1, 1, tzinfo=UTC), datetime(2037, 1, 1, tzinfo=UTC))
    change = next(changes(zone, begin, begin + 400 * DAY), None) if rng.random() < 0.5 else None
    near = None
    if change is not None:
        near = change[0] + timedelta(minutes=change[1])
        begin = change[0] - rng.random() * DAY
    policy = random_policy(rng, zone, near if rng.random() < 0.5 else None)
    compare(policy, begin, days, directory / f"{seed}.sqlite3", f"seed {seed}: {zone} {begin} {policy}")


def compare(policy: Policy, begin: datetime, days: float, history: Path, saying: str) -> None:
    view = preview_view(CHAT, policy, LeadTimes((), policy.prior_lead_s), StartKind.COLD_NODE, begin, days)
    told, happened = foretold(view, policy), happens(policy, begin, days, history)
    assert same(told.ordered, happened.ordered), f"{saying}\ntold {told.ordered}\nwas {happened.ordered}"
    assert same(told.ready, happened.ready), f"{saying}\ntold {told.ready}\nwas {happened.ready}"


@pytest.mark.parametrize("seeds", [range(begin, begin + 5) for begin in range(0, 20, 5)], ids=str)
def test_days_come_as_they_were_foretold(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        judge(seed, tmp_path, 3)


@pytest.mark.prove
@pytest.mark.parametrize("seeds", [range(begin, begin + 50) for begin in range(0, 500, 50)], ids=str)
def test_weeks_come_as_they_were_foretold(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        judge(seed, tmp_path, 8)


def test_a_window_that_is_asked_for_before_the_end_is_foretold(tmp_path: Path) -> None:
    """Ready by 00:10 with a lead time of 15 minutes: asked for at 23:55 of the day before."""
    night = Schedule("night", "UTC", "0 3 * * *", ready_by="10 0 * * *")
    policy = Policy(schedules=(night,), prior_lead_s=900.0)
    compare(policy, datetime(2026, 3, 2, 4, tzinfo=UTC), 20 / 24, tmp_path / "h", "one day")
