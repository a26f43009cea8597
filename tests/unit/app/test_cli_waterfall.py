"""The waterfall of one start, drawn: golden text in 80 columns, and what has no name."""

from typing import Any

import pytest

from activator_ext.app.cli.waterfall import waterfall
from runtime.contract import Mark, WeightsTry, WeightsUse
from tests.unit.app.fakes import NOW, failed_start, ready_start, seconds

READY = """\
team-a/chat · start local-7 · cached-node · 2026-11-30 08:00:00 UTC
ready in 20.00 s, 95.0% of it named · why: 1 waiting, 0 running

  stage                  at s                          took s   share     span s
  order                  0.00 |█                    |    0.50    2.5%
  imports_api            0.50 |█████░░░░            |    8.00   40.0%
  imports_core           4.50 |    ██████           |    5.00   25.0%
  weight_load           10.00 |          ███        |    2.00   10.0%   1.95 ok
  compile               12.00 |            ██████   |    5.00   25.0%   3.00 off
  golden_prompt         17.50 |                  ███|    2.50   12.5%
  (no name)                   |         ·       ·   |    1.00    5.0%

  █ what readiness waited for   ░ beside it

  marks  T0 +0.00  T1 +0.50  T4 +0.50  T5 +12.00  T6 +17.00  T8 +20.00
         T9 +20.00"""

FAILED = """\
team-a/chat - start local-6 - cached-node - 2026-11-30 08:00:00 UTC
failed after 6.00 s, 8.3% of it named - why: 1 waiting, 0 running
exited: the engine exited with code 1 while loading weights: see engine.log

  stage                  at s                          took s   share     span s
  order                  0.00 |##                   |    0.50    8.3%
  (no name)                   | ....................|    5.50   91.7%

  marks  T0 +0.00  T4 +0.50"""


def test_a_ready_start() -> None:
    assert waterfall(ready_start(), NOW) == READY


def test_a_failed_start_in_ascii() -> None:
    text = waterfall(failed_start(), NOW, ascii_only=True)
    assert text == FAILED
    assert text.isascii()


def test_a_start_under_way_ends_now() -> None:
    start = ready_start().model_copy(update={"marks": {Mark.T0: NOW}, "outcome": None, "attributed": None})
    text = waterfall(start, NOW + seconds(25))
    assert "under way for 25.00 s, 76.0% of it named" in text
    assert text.endswith("marks  T0 +0.00")


def test_a_start_of_which_nothing_is_known_yet() -> None:
    start = ready_start().model_copy(update={"marks": {}, "stages": (), "outcome": None, "attributed": None})
    assert "under way for 0.00 s" in waterfall(start, NOW)


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    failure = failed_start().failure
    assert failure is not None
    long = failure.model_copy(update={"message": "the engine said " + "much " * 60})
    start = ready_start().model_copy(update={"failure": long, "outcome": "failed", "why": "because " * 30})
    assert max(len(line) for line in waterfall(start, NOW, width=width).splitlines()) <= max(width, 80)


def test_control_characters_of_a_message_are_written_out() -> None:
    failure = failed_start().failure
    assert failure is not None
    start = failed_start().model_copy(update={"failure": failure.model_copy(update={"message": "\x1b[2J red"})})
    assert "\\x1b[2J red" in waterfall(start, NOW)


def test_by_which_way_the_weights_came() -> None:
    def head(*tries: WeightsTry, **more: Any) -> list[str]:
        start = ready_start().model_copy(update={"weights": WeightsUse(tries=tries, **more)})
        return waterfall(start, NOW, width=200).split("\n\n")[0].splitlines()[2:]

    plain = WeightsTry(loader="default", source="local", why="not measured here: local in turn")
    failed = WeightsTry(loader="prefetch", source="local", why="measured 1.0 s", cause="exited", failed="it \x1b broke")
    assert head() == head(plain) == []
    assert head(plain.model_copy(update={"loader": "lazy"})) == [
        "weights by lazy from local: not measured here: local in turn"
    ]
    assert head(failed, plain, peer="1 of 2 ranks from a peer", fell_back=1) == [
        "weights by prefetch from local failed: it \\x1b broke",
        "weights by default from local: not measured here: local in turn",
        "weights: ModelExpress fell back: 1 of 2 ranks from a peer",
    ]
