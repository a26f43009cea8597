"""Limits of the machine are named, once, with the fix."""

import asyncio
import errno
import resource

import pytest

from activator_ext.app.machine import FILES_NEEDED, LoopFaults, MachineUnfit, raise_file_limit


def limits(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> list[tuple[int, int]]:
    """Pretend these limits; the ones that are set."""
    changed: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: changed.append(pair))
    return changed


def test_the_soft_limit_becomes_the_hard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = limits(monkeypatch, 1024, 4096)
    assert raise_file_limit() == 4096
    assert changed == [(4096, 4096)]


def test_no_limit_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    limits(monkeypatch, 1024, resource.RLIM_INFINITY)
    assert raise_file_limit() == resource.RLIM_INFINITY


def test_too_few_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits(monkeypatch, 10, FILES_NEEDED - 1) == []
    with pytest.raises(MachineUnfit, match=rf"allows {FILES_NEEDED - 1} open files.*ulimit -n {FILES_NEEDED}"):
        raise_file_limit()


async def test_a_lack_of_descriptors_is_told_once_and_other_faults_as_ever() -> None:
    said: list[str] = []
    others: list[str] = []
    loop = asyncio.new_event_loop()
    loop.default_exception_handler = lambda context: others.append(context["message"])  # type: ignore[method-assign]
    faults = LoopFaults(said.append, 256)
    for _ in range(50):
        faults(loop, {"message": "accept", "exception": OSError(errno.EMFILE, "Too many open files")})
    faults(loop, {"message": "other", "exception": OSError(errno.EPIPE, "Broken pipe")})
    faults(loop, {"message": "without"})
    # asyncio's own words, a second after a lack of descriptors, about a server that was closed meanwhile.
    closed = {"message": "Exception in callback BaseSelectorEventLoop._start_serving(…)", "exception": ValueError("-1")}
    faults(loop, closed)
    faults(loop, {"message": "another ValueError", "exception": ValueError("-1")})
    loop.close()
    assert len(said) == 1
    assert "no descriptor is free (limit 256)" in said[0]
    assert others == ["other", "without", "another ValueError"]
