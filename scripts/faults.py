"""The page of faults: what dies, fills up or goes wrong, what comes of it, and the test that shows it.

tests/unit/scripts/test_faults.py holds that each row names a test that is there, and that each test of tests/chaos is
named by a row.
"""

from dataclasses import dataclass

CHAOS = "tests/chaos/"


@dataclass(frozen=True, slots=True)
class Row:
    """One fault. `tests`: `file.py::test_name` below tests/chaos, or a path of its own."""

    fault: str
    outcome: str
    tests: tuple[str, ...]


_MARKS = ("test_marks.py::test_killed_at_a_mark", "test_marks.py::test_killed_at_a_mark_short")
_REAL = "test_real.py::test_killed_at_a_mark_of_real_vllm"
_STREAM = "test_streams.py::test_killed_in_the_middle_of_a_stream"

SECTIONS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    (
        "A process is killed (`kill -9`)",
        (
            Row(
                "controller, at any mark T0–T9 of a start",
                "the start goes on under host and portal; the next `up` adopts both and the engine; who waits is "
                "answered; holds, starts and events that were acknowledged are there",
                (*_MARKS, _REAL),
            ),
            Row(
                "portal, at any mark",
                "clients that wait or run see a broken connection; a new portal listens within a second or two; the "
                "start goes on",
                (*_MARKS, _REAL),
            ),
            Row(
                "host, at any mark",
                "the kernel ends its engines; a new host starts what is wanted; clients wait on and are answered",
                (*_MARKS, _REAL),
            ),
            Row(
                "engine, before it is ready",
                "the start has failed: waiting clients get 503 with the cause and `Retry-After`; tried again after the "
                "back-off, 10 s at first",
                (*_MARKS, _REAL),
            ),
            Row(
                "engine, after it is ready",
                "started again at once; requests without a first byte wait for it",
                (*_MARKS, "tests/local/test_faults.py::test_a_dead_engine_is_started_again"),
            ),
            Row(
                "controller, in the middle of a stream",
                "the stream is whole",
                (_STREAM,),
            ),
            Row(
                "portal, host or engine, in the middle of a stream",
                "the stream is visibly broken: its connection breaks, or its last event is an error; it never ends as "
                "if it were whole",
                (_STREAM,),
            ),
            Row(
                "any process, in the middle of a write to the history",
                "what was acknowledged is there; a hold that was not is there at most once, and once when it is asked "
                "for again with its key",
                (
                    "test_database.py::test_killed_in_the_middle_of_a_write",
                    "test_database.py::test_up_killed_in_the_middle_of_a_hold",
                ),
            ),
            Row(
                "controller, and no `up` follows",
                "after the lease of 60 s host, portal and engines end; an `up` that comes later keeps the holds",
                ("test_lease.py::test_without_a_next_up_all_ends_with_the_lease",),
            ),
        ),
    ),
    (
        "A process stands still, or is told to end",
        (
            Row(
                "portal or host stopped (SIGSTOP)",
                "noticed by the scheduler's counts: it has not run although somebody knocked; after 10 s it is "
                "ended and begun again (one blocked by a disk or a lock after 60 s)",
                ("test_frozen.py::test_a_stopped_portal_and_a_stopped_host_are_replaced",),
            ),
            Row(
                "host stopped while there is no `up`",
                "the next `up` ends it at once and begins a new one",
                ("test_frozen.py::test_the_next_up_replaces_a_stopped_host",),
            ),
            Row(
                "portal that hardly gets a core",
                "kept, with its streams: slow is not stopped",
                ("test_frozen.py::test_a_portal_that_gets_hardly_any_time_is_kept",),
            ),
            Row(
                "SIGQUIT to `up`, portal or host",
                "it ends in order, as by SIGTERM: running streams finish",
                ("test_endings.py::test_sigquit_ends_in_order",),
            ),
            Row(
                "Ctrl-C at any moment of the start",
                "it ends, nothing stays; no traceback, but where Python itself is interrupted before a program's first "
                "line (`Fatal Python error: init_…`)",
                ("test_endings.py::test_ctrl_c_at_any_moment_of_the_start",),
            ),
            Row(
                "`up` with standard streams that are closed, or whose reader leaves (`| head`)",
                "it serves on; its events stay in the history",
                (
                    "test_endings.py::test_up_with_closed_streams_serves",
                    "test_endings.py::test_up_whose_reader_leaves_serves_on",
                ),
            ),
            Row(
                "`status > /dev/full`, `events | head -0`",
                "`error: the output cannot be written: …`, status 1; silence for a reader that left",
                ("test_endings.py::test_a_reader_that_leaves_and_a_full_disk_are_no_traceback",),
            ),
        ),
    ),
    (
        "The disk and the database",
        (
            Row(
                "disk full while `up` serves, its logs included",
                "starts, answers and streams go on; what cannot be kept is refused (503); said once; with room again "
                "it is as before",
                (
                    "test_disk.py::test_a_disk_that_fills_while_it_serves",
                    "test_disk.py::test_a_full_disk_for_logs_alone",
                ),
            ),
            Row(
                "portal, host, controller killed on a full disk",
                "portal and host are replaced; the next `up` names the full disk and ends with 1",
                ("test_disk.py::test_parts_killed_on_a_full_disk_come_back",),
            ),
            Row(
                "`up` on a full disk, or on a state directory that cannot be written",
                "one line that names the path and the fix, status 1, nothing started",
                (
                    "test_disk.py::test_an_up_on_a_full_disk_names_it",
                    "test_disk.py::test_a_directory_that_cannot_be_written_is_named",
                ),
            ),
            Row(
                "database cut, scribbled over, another program's, without a table, of a senseless version",
                "moved to `history.sqlite3.damaged-<UTC>` untouched, begun anew, said; lead times are learned again, "
                "holds are lost",
                (
                    "test_database.py::test_a_damaged_database",
                    "tests/unit/adapters/test_history_file.py::test_a_damaged_file_is_moved_aside_and_begun_anew",
                ),
            ),
            Row(
                "its write-ahead log damaged",
                "a copy is kept as `history.sqlite3.damaged-<UTC>-wal`, said; what stood behind the damage is lost",
                ("tests/unit/adapters/test_history_file.py::test_a_damaged_log_is_kept_and_said",),
            ),
            Row(
                "damaged while `up` runs",
                "it serves on; the next `up` moves it aside",
                ("test_database.py::test_a_database_damaged_while_up_runs",),
            ),
        ),
    ),
    (
        "The machine",
        (
            Row(
                "fewer open files allowed than `up` needs",
                "one line with the `ulimit -n` that is needed, status 1; with that many it serves",
                (
                    "test_descriptors.py::test_a_limit_below_what_is_needed_is_named",
                    "test_descriptors.py::test_the_least_limit_is_enough",
                ),
            ),
            Row(
                "portal without a free descriptor",
                "whoever comes is refused visibly or gets no connection; with descriptors again it serves",
                ("test_descriptors.py::test_a_portal_without_descriptors_sheds_and_recovers",),
            ),
            Row(
                "`up` without a free descriptor",
                "requests are served; the API comes back with descriptors; a line a minute says it",
                ("test_descriptors.py::test_up_without_descriptors_serves_and_recovers",),
            ),
            Row(
                "host without a free descriptor",
                "a start fails and names it (503); tried again after the back-off",
                ("test_descriptors.py::test_a_host_without_descriptors_names_it_and_recovers",),
            ),
            Row(
                "a port taken, also between one `up` and the next",
                "named with its option, status 1, before anything is begun, adopted or ended",
                (
                    "tests/local/test_faults.py::test_a_taken_address_is_named",
                    "test_lease.py::test_a_port_taken_before_the_next_up_is_named",
                ),
            ),
            Row(
                "clock set forth",
                "said; holds and windows end by the new time, announced minutes that have come start at once; the "
                "lease goes on",
                (
                    "test_clock.py::test_the_clock_set_forth",
                    "test_clock.py::test_the_clock_set_forth_for_all",
                    "test_clock.py::test_the_clock_set_forth_over_an_announced_minute",
                ),
            ),
            Row(
                "clock set back",
                "said; holds last until their instant comes, requests are answered, nothing waits for the old time",
                ("test_clock.py::test_the_clock_set_back",),
            ),
            Row(
                "clock set during a start, or to and fro",
                "the start teaches no lead time; no engine is ended or started for it",
                (
                    "test_clock.py::test_the_clock_set_during_a_start",
                    "test_clock.py::test_the_clock_set_to_and_fro",
                ),
            ),
        ),
    ),
)


def page() -> str:
    """The body of docs/reference/faults.md."""
    intro = (
        "What comes of each fault in local mode. The short form of each runs in CI, all of them by `make prove`, which "
        "prints its seed and figure for each. None leaves an orphan process, two engines of one replica at once, "
        "or an answer that looks whole and is not."
    )
    return rendered(intro, SECTIONS)


def rendered(intro: str, sections: tuple[tuple[str, tuple[Row, ...]], ...]) -> str:
    """A table for each section below `intro`."""
    parts = [intro]
    for title, rows in sections:
        lines = [f"## {title}", "", "| fault | what comes of it | shown by |", "| --- | --- | --- |"]
        lines += [f"| {_cell(row.fault)} | {_cell(row.outcome)} | {_shown(row.tests)} |" for row in rows]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def path_of(test: str) -> str:
    """A row's test as pytest takes it."""
    return test if test.startswith("tests/") else CHAOS + test


def _shown(tests: tuple[str, ...]) -> str:
    return "<br>".join(f"`{path_of(test).removeprefix('tests/')}`" for test in tests)
