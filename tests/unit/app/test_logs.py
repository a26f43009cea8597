"""The logs of host and portal never grow without end, though their writers keep them open."""

from pathlib import Path

from activator_ext.app.logs import bound


def test_a_log_over_its_bound_is_emptied_and_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "host.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * 101)
        assert bound(log, max_bytes=100)
        writer.write(b"later\n")
        assert log.read_bytes() == b"later\n"
        assert log.with_name("host.log.1").read_bytes() == b"x" * 101
        assert not bound(log, max_bytes=100)


def test_a_log_that_is_not_there_needs_no_bound(tmp_path: Path) -> None:
    assert not bound(tmp_path / "portal.log")
