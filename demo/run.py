"""`make demo`: a model served from zero on a real engine, told step by step, each claim measured.

Exits 0 if every claim held, 1 if one did not, 130 if interrupted; leaves no process unless KEEP=1.
"""

import os
import signal
import sys
from types import FrameType

from rich.console import Console

from demo import steps
from demo.claims import Claim
from demo.client import AskFailed
from demo.files import ROOT, StillServing, prepare
from demo.serving import SERVICE, DemoError, Serving
from demo.tell import Narrator

PROMISED_S = 8 * 60.0


def main() -> int:
    """Run the demo; the exit status."""
    signal.signal(signal.SIGTERM, _interrupt)
    tell = Narrator(Console())
    keep = os.environ.get("KEEP") == "1"
    try:
        claims, serving = run(tell, keep=keep)
    except KeyboardInterrupt:
        tell.say("stopped; nothing is left running")
        return 130
    except (DemoError, AskFailed, StillServing) as error:
        tell.say(f"the demo broke off: {error}")
        return 1
    tell.table(claims)
    failed = [claim for claim in claims if not claim.holds]
    tell.say(f"{len(claims) - len(failed)} of {len(claims)} claims hold; {tell.elapsed_s:.0f} s in all")
    if failed:
        load, cores = os.getloadavg()[1], os.cpu_count()
        tell.say(f"load over five minutes: {load:.1f} on {cores} cores; what else runs here makes starts slow")
    if keep:
        _tell_how_to_use(tell, serving)
    return 1 if failed else 0


def run(tell: Narrator, *, keep: bool) -> tuple[list[Claim], Serving]:
    """All steps in order, cold start first: what it teaches, the later ones plan with. `keep`: it goes on serving."""
    tell.step("A tiny random model and the files that serve it")
    files = prepare(ROOT / ".demo")
    for path in (*files.manifests, files.volume / "tiny-a"):
        tell.say(str(path.relative_to(ROOT)))
    serving = Serving(files)
    with serving:
        tell.say(f"`pilotlight up` serves {SERVICE} at {serving.url}; its log is {files.log.relative_to(ROOT)}")
        claims = steps.costs_nothing(tell, serving)
        from_zero, first = steps.from_zero(tell, serving)
        claims += from_zero
        claims += steps.again(tell, serving, first)
        claims += steps.to_zero(tell, serving)
        claims += steps.by_hold(tell, serving)
        claims += steps.by_schedule(tell, serving, files)
        steps.waterfall(tell, serving)
        claims.append(
            Claim("all this takes less than 8 minutes", f"{tell.elapsed_s:.0f} s", tell.elapsed_s < PROMISED_S)
        )
        serving.kept = keep
        if not keep:
            tell.step("Ctrl-C to `pilotlight up`")
    if not keep:
        left = serving.left_over
        claims.append(Claim("nothing is left running", ", ".join(left) or "no process", not left))
    return claims, serving


def _tell_how_to_use(tell: Narrator, serving: Serving) -> None:
    tell.step("It goes on serving (KEEP=1)")
    tell.verbatim(
        f"""ask:   curl -N {serving.url}/v1/chat/completions -H 'content-type: application/json' \\
         -d '{{"model": "{SERVICE}", "stream": true, "max_tokens": 16,
              "messages": [{{"role": "user", "content": "Hello"}}]}}'
watch: .venv/bin/pilotlight status -w --state .demo/state
stop:  kill -INT {serving.process.pid}"""
    )


def _interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends the demo as Ctrl-C does."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
