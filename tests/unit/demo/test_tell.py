"""The demo's voice: speaks when something changed, and shows every claim with its verdict."""

import io

import pytest
from rich.console import Console

from demo.claims import Claim
from demo.tell import Narrator


def narrator() -> tuple[Narrator, io.StringIO]:
    out = io.StringIO()
    return Narrator(Console(file=out, width=100)), out


def test_progress_is_told_on_change_and_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"s": 0.0}
    monkeypatch.setattr("demo.tell.time.monotonic", lambda: clock["s"])
    voice, out = narrator()

    for at_s, state, left_s in [
        (1, "imports", 30),
        (2, "imports", 29),
        (3, "compile", 28),
        (12, "compile", 20),
        (13.5, "compile", 18),
    ]:
        clock["s"] = at_s
        voice.progress(state, f", {left_s} s left")

    assert out.getvalue().splitlines() == [
        "   1.0 s  … imports, 30 s left",
        "   3.0 s  … compile, 28 s left",
        "  13.5 s  … compile, 18 s left",
    ]


def test_the_table_shows_each_claim_and_its_verdict() -> None:
    voice, out = narrator()

    voice.table([Claim("it is on time", "18 s early", True), Claim("[it] is quick", "12 s", False)])

    rows = [line.split() for line in out.getvalue().splitlines()]
    assert ["pass", "it", "is", "on", "time", "18", "s", "early"] in rows
    assert ["FAIL", "[it]", "is", "quick", "12", "s"] in rows


def test_steps_are_numbered() -> None:
    voice, out = narrator()

    voice.step("A service at zero")
    voice.step("The first request")

    assert out.getvalue().split("\n")[1::2] == ["1. A service at zero", "2. The first request"]
