"""A controller over a fake host, with a clock that the test moves."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from activator_ext.adapters.history import History
from activator_ext.adapters.local.manifests import LocalService
from activator_ext.app.controller import Controller
from activator_ext.app.metrics import Metrics
from activator_ext.app.routes import RouteFeed
from activator_ext.core.model import Policy, ServiceId, Warmth
from runtime.contract import EngineSpec, Lease, PortalReport, ServiceLoad
from tests.unit.app.fake_host import FakeHost

CHAT = ServiceId("demo", "chat")
BEGIN = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


POLICY = Policy(cold_start_cost_s=60.0)


def local(service: ServiceId = CHAT, policy: Policy = POLICY, **spec: object) -> LocalService:
    fields = {"service": str(service), "served_names": (str(service),), "model": "/models/m"} | spec
    return LocalService(
        id=service,
        policy=policy,
        spec=EngineSpec.model_validate(fields),
        names=(str(service), service.name),
        file="chat.yaml",
        line=1,
        policy_name=None,
    )


class Bench:
    """A controller, its fake host and a clock that the test moves."""

    def __init__(self, history: Path) -> None:
        self.now = BEGIN
        self.active_at: datetime | None = None
        self.host = FakeHost(BEGIN)
        self.history_path = history
        self.history = History(history, lambda: self.now)
        self.feed = RouteFeed()
        self.said: list[str] = []
        self.metrics = Metrics("0")
        self.controller = self.new_controller()

    def new_controller(self) -> Controller:
        controller = Controller(
            host=self.host,
            history=self.history,
            metrics=self.metrics,
            feed=self.feed,
            clock=lambda: self.now,
            lease=Lease(),
            report=self.said.append,
        )
        controller.take_services({CHAT: local()})
        return controller

    async def tick(self, after_s: float = 0.0) -> None:
        self.now += timedelta(seconds=after_s)
        self.host.now = self.now
        await self.controller.tick()

    def requests(self, waiting: int = 0, running: int = 0, since: datetime | None = None) -> None:
        if waiting or running:
            self.active_at = self.now
        load = ServiceLoad(
            service=str(CHAT),
            waiting=waiting,
            running=running,
            oldest_waiting_at=(since or self.now) if waiting else None,
            last_activity_at=self.active_at,
        )
        self.controller.portal_reported(PortalReport(portal="p", at=self.now, services=(load,)))

    async def ready(self, after_s: float) -> None:
        """Starts under way end `after_s` later."""
        self.now += timedelta(seconds=after_s)
        self.host.now = self.now
        self.host.ready(str(CHAT))
        await self.tick()

    def warmth(self) -> Warmth:
        return self.controller.statuses()[0].warmth
