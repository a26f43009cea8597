"""The steps of the demo. Each tells what it does, measures it, and gives its claims."""

import time
from datetime import UTC, datetime, timedelta

from activator_ext.app.views import ServiceStatus
from activator_ext.core.model import Warmth
from demo.claims import Claim, Prewarm, immediate, nothing_runs, prewarm_claims
from demo.client import Answer, Heartbeat, ask
from demo.files import DemoFiles, add_schedule
from demo.serving import SERVICE, Serving, now
from demo.tell import Narrator
from runtime.contract import Mark

QUESTION = "Good morning, what is a licence?"
WARM = (Warmth.WARM, Warmth.BUSY)
# Long enough to see that nothing runs (ten looks and more), short enough to watch.
QUIET_S = 6.0
# Between announcing a warmth and the moment to ask for it: time to see that nothing runs.
NOTICE = timedelta(seconds=15)
HOLD_FOR = timedelta(seconds=15)
# `coldStartCost` of manifests/chat.yaml, and what stopping an engine may take on top.
KEEP_S = 20.0
STOPPING_S = 25.0


def costs_nothing(tell: Narrator, serving: Serving) -> list[Claim]:
    """Watch a service at zero for a while."""
    tell.step("A service at zero")
    status = serving.status()
    tell.say(f"{SERVICE} is {status.warmth}: floor {status.floor}, {status.reason.text}")
    begun, cpu_s = now(), serving.watch.own_cpu_s()
    time.sleep(QUIET_S)
    used = (serving.watch.own_cpu_s() - cpu_s) / (now() - begun).total_seconds()
    tell.say(f"controller, portal and host together used {used:.1%} of one core meanwhile")
    return [nothing_runs("a service at zero has no engine", serving.watch.samples, begun, now())]


def from_zero(tell: Narrator, serving: Serving) -> tuple[list[Claim], Answer]:
    """The first request waits for the engine, told stage and seconds left, and is answered."""
    tell.step("The first request to a service at zero")
    tell.say(f"asking {serving.url}/v1/chat/completions, streaming: “{QUESTION}”")
    answer = question(tell, serving)
    tell.say(f"answered after {answer.seconds:.1f} s: “{answer.text}”")
    start = serving.last_start()
    attributed = start.attributed or 0.0
    return [
        Claim(
            "the request to zero waits, is told why, and is answered",
            f"{answer.seconds:.1f} s, {answer.heartbeats} heartbeats",
            answer.heartbeats > 0,
        ),
        Claim("each second of the start has a name", f"{attributed:.1%} attributed", attributed >= 0.95),
    ], answer


def again(tell: Narrator, serving: Serving, first: Answer) -> list[Claim]:
    """The next request waits for nothing and gets the same text."""
    tell.step("The next request")
    answer = question(tell, serving)
    tell.say(f"answered after {answer.seconds:.2f} s: “{answer.text}”")
    same = answer.text == first.text
    return [
        immediate("the next request is answered at once", answer.seconds),
        Claim("the same question has the same answer", "equal" if same else f"{first.text!r} ≠ {answer.text!r}", same),
    ]


def to_zero(tell: Narrator, serving: Serving) -> list[Claim]:
    """After `coldStartCost` idle seconds the engine goes by itself."""
    tell.step(f"Back to zero after {KEEP_S:.0f} idle seconds (coldStartCost), by itself")
    idle_since = now()
    gone_s = wait_gone(tell, serving, idle_since)
    tell.say(f"no engine process {gone_s:.1f} s after the last answer")
    return [
        Claim(
            "idle, it goes to zero by itself",
            f"after {gone_s:.1f} s",
            KEEP_S - 2 <= gone_s <= KEEP_S + STOPPING_S,
        )
    ]


def by_hold(tell: Narrator, serving: Serving) -> list[Claim]:
    """An announced hold brings it up by its instant, before any request."""
    lead_s = serving.status().lead_time_s
    announced_at = now()
    ready_by = (announced_at + timedelta(seconds=lead_s) + NOTICE).replace(microsecond=0)
    tell.step(f"An announced hold: ready by {ready_by:%H:%M:%S} UTC, before any request")
    duration = f"{HOLD_FOR.total_seconds():.0f}s"
    arguments = ("prewarm", SERVICE, "--ready-by", ready_by.isoformat(), "--for", duration, "--reason", "demo")
    tell.say(f"$ pilotlight {' '.join(arguments)}")
    tell.verbatim(serving.cli(*arguments))
    run = prewarmed(tell, serving, "hold", announced_at, ready_by, lead_s)
    gone_s = wait_gone(tell, serving, now())
    tell.say(f"the hold ended, and {gone_s:.1f} s after the last answer so had the engine")
    return prewarm_claims(run)


def by_schedule(tell: Narrator, serving: Serving, files: DemoFiles) -> list[Claim]:
    """A schedule, added to the policy's file while all runs, brings it up by its minute, before any request."""
    lead_s = serving.status().lead_time_s
    announced_at = now()
    ready_by = next_minute(announced_at + timedelta(seconds=lead_s) + NOTICE)
    until = ready_by + timedelta(minutes=1)
    tell.step(f"A schedule: ready by {ready_by:%H:%M} UTC, before any request")
    add_schedule(files.policy, name="demo", ready_by=ready_by, until=until)
    tell.say(f"added to {files.policy.name}: readyBy {ready_by:%H:%M}, until {until:%H:%M}; it is read again by itself")
    serving.wait("reading the edited file again", lambda status: status.next_warm_at == ready_by, timeout_s=10)
    read_s = (now() - announced_at).total_seconds()
    tell.say(f"read after {read_s:.1f} s: {planned(serving.status())}")
    run = prewarmed(tell, serving, "schedule", announced_at, ready_by, lead_s)
    return [Claim("an edited file is read again while it serves", f"after {read_s:.1f} s", True), *prewarm_claims(run)]


def waterfall(tell: Narrator, serving: Serving) -> None:
    """Where the seconds of the last start went."""
    tell.step("Where the seconds of a start go")
    tell.say(f"$ pilotlight starts {SERVICE}")
    tell.verbatim(serving.cli("starts", SERVICE))


def question(tell: Narrator, serving: Serving) -> Answer:
    """Ask the demo's question, showing the portal's heartbeats."""

    def on_wait(elapsed_s: float, beat: Heartbeat) -> None:
        left = "" if beat.eta_s is None else f", about {beat.eta_s} s left"
        tell.progress(f"waiting: {beat.stage}", left)

    return ask(serving.portal, SERVICE, QUESTION, on_wait=on_wait)


def prewarmed(
    tell: Narrator, serving: Serving, source: str, announced_at: datetime, ready_by: datetime, lead_s: float
) -> Prewarm:
    """Wait, without any request, until it is warm and its instant has come; then ask once."""

    def show(status: ServiceStatus) -> None:
        left_s = (ready_by - now()).total_seconds()
        if status.warmth is Warmth.WARMING:
            tell.progress(f"{status.warmth}: {status.stage or 'asked for'}", f", {left_s:.0f} s before its time")
        else:
            engines = serving.watch.samples[-1].engine_processes
            tell.progress(f"{status.warmth}: {engines} engine processes", f", {left_s:.0f} s before its time")

    timeout_s = (ready_by - now()).total_seconds() + 300.0
    serving.wait(f"warm by {source}", lambda status: status.warmth in WARM, timeout_s=timeout_s, on_look=show)
    start = serving.last_start()
    idle_s = (ready_by - start.marks[Mark.T9]).total_seconds()
    tell.say(f"warm at {start.marks[Mark.T9]:%H:%M:%S}, {abs(idle_s):.1f} s {'ahead' if idle_s >= 0 else 'late'}")
    time.sleep(max(0.0, (ready_by - now()).total_seconds()))
    answer = question(tell, serving)
    tell.say(f"its time has come; the first request is answered after {answer.seconds:.2f} s: “{answer.text}”")
    return Prewarm(
        source=source,
        announced_at=announced_at,
        ready_by=ready_by,
        asked_at=start.marks[Mark.T0],
        ready_at=start.marks[Mark.T9],
        lead_s=lead_s,
        why=start.why,
        answer_s=answer.seconds,
        samples=tuple(serving.watch.samples),
    )


def wait_gone(tell: Narrator, serving: Serving, since: datetime) -> float:
    """Seconds from `since` until no engine process lived any more."""

    def show(status: ServiceStatus) -> None:
        engines = serving.watch.samples[-1].engine_processes
        tell.progress(
            f"{engines} engine processes", f", floor {status.floor}, {(now() - since).total_seconds():.0f} s later"
        )

    serving.wait(
        "going to zero",
        lambda status: status.warmth is Warmth.COLD and serving.watch.samples[-1].engine_processes == 0,
        timeout_s=120,
        on_look=show,
    )
    gone_at = next((s.at for s in reversed(serving.watch.samples) if s.engine_processes > 0), since)
    return (gone_at - since).total_seconds()


def next_minute(instant: datetime) -> datetime:
    """The first whole minute at or after `instant`, in UTC."""
    floor = instant.astimezone(UTC).replace(second=0, microsecond=0)
    return floor if floor == instant else floor + timedelta(minutes=1)


def planned(status: ServiceStatus) -> str:
    """What comes next, as the status says it."""
    if status.next_warm_at is None:
        return "nothing is planned"
    return f"next warm at {status.next_warm_at:%H:%M:%S}, a start is planned with {status.lead_time_s:.1f} s"
