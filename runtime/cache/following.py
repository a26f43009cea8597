"""How long a start may wait for a bundle that another start is making: no longer than what that can save. Pure.

A start that waits is ready when the other's bundle is published, plus what a start with a bundle takes; one that does
not is ready when it has compiled itself. With `saves_s`, what a bundle saves a start, waiting for R seconds makes it
later by R − saves_s.

- A request waits for the start, or nobody can tell: it may not be later. It waits only while the bundle is expected
  within `saves_s`, and no longer than that.
- Nothing waits: it may be later by what it saves, so that each second of delay spares a second of compiling at least.
  It waits only while the bundle is expected within 2 · `saves_s`, and no longer than that.

So a wait that comes to nothing (the other dies, or takes longer than ever) costs once or twice a compile, not more.

Worked, with nothing known: a compile of 30 s is saved, and the bundle is there 50 s after the other has begun. Two
hosts begin at once. Where a request waits, the second compiles, too: the bundle would be 50 s away, and compiling costs
30. Is it 30 s later than the first, the bundle is 20 s away: it waits, and is ready 10 s sooner. Where nothing waits,
it waits up to 60 s.
"""

from dataclasses import dataclass

SAVES_S = 30.0
"""What a bundle saves where no start of the service has told: a tiny model's compile stage on two cores takes 31 s
without and 3 s with it; larger models and GPUs take minutes, so that waiting on this figure errs on the short side."""

REST_S = 20.0
"""From taking the turn to the published bundle without the compiling, where no start has told: imports, weights, golden
prompt and packing of small models take 10 to 25 s."""

MOST_S = 600.0
"""No wait is longer, whatever was known: a host that is asked for an engine is not silent for more than ten minutes."""


@dataclass(frozen=True, slots=True)
class Known:
    """What earlier starts of the service have shown, in seconds; None: nothing yet.

    `saves_s`: the compile stage without a bundle less that with one. `whole_s`: from the turn taken to the bundle
    published.
    """

    saves_s: float | None = None
    whole_s: float | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """`more_s` ≥ 0: how much longer this start may wait from now on. `why`: in words, for its record."""

    more_s: float
    why: str


def may_wait(
    known: Known, *, held_s: float | None, waited_s: float, awaited: bool | None, most_s: float = MOST_S
) -> Waiting:
    """Whether to wait on for who has held the turn for `held_s` (None: not told), after `waited_s` of waiting.

    `awaited`: whether a request waits for this start; None: nobody can tell. `most_s`: what the start can spare.
    """
    saves_s = SAVES_S if known.saves_s is None else max(0.0, known.saves_s)
    whole_s = saves_s + REST_S if known.whole_s is None else known.whole_s
    expected_s = max(0.0, whole_s - max(0.0, held_s or 0.0))
    bound_s = min(saves_s * (2.0 if awaited is False else 1.0), most_s, MOST_S)
    left_s = max(0.0, bound_s - waited_s)
    facts = f"expected in {expected_s:.0f} s, compiling costs {saves_s:.0f} s"
    if left_s == 0.0:
        return Waiting(0.0, f"{facts}, and {waited_s:.0f} s were waited")
    if expected_s > left_s:
        return Waiting(0.0, f"{facts}{'' if awaited is False else ', and a request may wait'}")
    return Waiting(left_s, f"{facts}; it is waited for {bound_s:.0f} s at most")
