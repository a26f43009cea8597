"""Figures and tables of a run that never was."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from portal.findings import Findings, as_json, last_line
from portal.measures import Latency, Streams, Throughput
from portal.plan import Plan
from portal.report import table, tables


def throughput(rps: float, cpu_us: float = 25.0, core: float = 0.99, others: float = 0.0) -> Throughput:
    return Throughput(round(rps * 3), rps, cpu_us, core, others, 1.0, 2.0)


def streams(*delays_ms: float, missing: int = 0) -> Streams:
    return Streams(np.array(sorted(delays_ms), dtype=np.float32), missing, 0.4, 40 * 2**20, 60 * 2**20)


PEERS = {"direct": throughput(60_000), "haproxy": throughput(30_000, cpu_us=20.0)}
FOUND = Findings(
    throughput={
        32: [{**PEERS, "portal": throughput(27_000), "caddy": throughput(6_000, cpu_us=100.0)}],
        128: [{**PEERS, "portal": throughput(24_000), "caddy": throughput(7_500, cpu_us=100.0)}],
    },
    latency=[
        {
            "direct": Latency(0.01, 0.02, 1.0),
            "portal": Latency(0.12, 0.62, 3.0),
            "haproxy": Latency(0.1, 0.3, 1.0),
            "caddy": Latency(0.2, 0.9, 4.0),
        }
    ],
    streams=[
        {
            "direct": streams(0.1, 0.2, 5.0),
            "portal": streams(0.3, 24.9, 25.1),
            "haproxy": streams(0.2, 0.3),
            "caddy": streams(0.1, missing=2),
        }
    ],
    decoys={"portal": "9 of 9", "caddy": "3 of 9"},
    versions={"haproxy": "2.6.12"},
    plan=Plan(),
)


def test_the_last_line_takes_the_worst_number_of_connections() -> None:
    assert json.loads(last_line(FOUND)) == {
        "bench": "portal",
        "rps_vs_caddy": 3.2,
        "rps_vs_haproxy": 0.8,
        "added_p50_ms": 0.11,
        "added_p99_ms": 0.6,
    }
    assert "\n" not in last_line(FOUND)


def test_a_proxy_that_needs_more_cpu_serves_fewer_requests_per_cpu_second() -> None:
    assert FOUND.per_cpu_vs("haproxy") == pytest.approx(0.8)
    assert FOUND.per_cpu_vs("caddy") == pytest.approx(4.0)


def test_what_others_had_of_the_core_is_not_held_against_a_proxy() -> None:
    assert throughput(30_000).per_core == 30_000
    assert throughput(9_000, core=0.3, others=0.7).per_core == pytest.approx(30_000)
    busy = {**FOUND.throughput[128][0], "portal": throughput(6_000, core=0.25, others=0.75)}
    assert replace(FOUND, throughput={128: [busy]}).rps_vs("haproxy") == pytest.approx(0.8)


def test_delayed_is_a_period_after_the_worst_without_a_proxy_or_never() -> None:
    # Without a proxy the worst was 5 ms: 24.9 ms is in time, 25.1 ms is not.
    assert [FOUND.delayed(name) for name in ("direct", "portal", "haproxy", "caddy")] == [[0], [1], [0], [2]]


def test_shares_of_delays_are_by_nearest_rank() -> None:
    hundred = streams(*range(1, 101))
    assert [hundred.at(share) for share in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert hundred.later_than(98.0) == 2


def test_goals_are_judged_one_by_one() -> None:
    lines = [re.split(r"\s{2,}", line.strip()) for line in tables(FOUND).splitlines()]
    assert [line for line in lines if line[-1] in {"reached", "MISSED"}] == [
        ["requests/s and core ÷ HAProxy's", "0.8", "at least 0.6", "reached"],
        ["requests/s and core ÷ Caddy's", "3.2", "at least 3", "reached"],
        ["added p50 ms", "0.11", "at most 0.15", "reached"],
        ["added p99 ms", "0.6", "at most 1", "reached"],
        ["delayed chunks", "1", "at most 0", "MISSED"],
    ]


def test_a_quiet_run_has_no_doubts() -> None:
    assert "Doubtful" not in tables(FOUND)


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (throughput(9_000, core=0.5, others=0.5), "other work used over 5% of the proxy's core"),
        (throughput(9_000, core=0.5), "the proxy's core was never full (portal at 32 connections)"),
    ],
)
def test_what_makes_figures_doubtful_is_said(sample: Throughput, said: str) -> None:
    round_of_32 = {**FOUND.throughput[32][0], "portal": sample}
    assert said in tables(replace(FOUND, throughput={**FOUND.throughput, 32: [round_of_32]}))


def test_a_load_that_is_late_by_itself_is_doubtful() -> None:
    late = {**FOUND.streams[0], "direct": streams(0.1, 20.1)}
    assert "without a proxy chunks were up to 20 ms late" in tables(replace(FOUND, streams=[FOUND.streams[0], late]))


def test_streams_that_broke_are_told_and_the_rest_is_kept() -> None:
    broken = replace(FOUND, streams=[], broken="caddy: streams ended with 1 and said: only 7 of 9 streams began")
    assert "\n\nSTREAMS BROKE: caddy: streams ended with 1" in tables(broken)
    assert "delayed chunks" not in tables(broken)
    assert last_line(broken) == last_line(FOUND)
    assert json.loads(as_json(broken))["streams_broken"].startswith("caddy")
    assert "BROKE" not in tables(FOUND)


def test_without_a_proxy_no_proxy_figures_are_shown() -> None:
    row = next(line for line in tables(FOUND).splitlines() if "32 connections, direct" in line)
    assert re.split(r"\s{2,}", row.strip())[1:] == ["60,000", "60,000–60,000", "–", "–", "–", "–", "1.00", "2.00"]


def test_json_has_every_sample_and_the_last_line() -> None:
    said = json.loads(as_json(FOUND))
    assert said["throughput"]["128"][0]["portal"]["rps"] == 24_000
    assert said["streams"][0]["caddy"]["missing"] == 2
    assert said["result"] == json.loads(last_line(FOUND))


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table("T", ("", "n"), [("a", "1"), ("bb", "100")]) == "T\n        n\n  a     1\n  bb  100"
