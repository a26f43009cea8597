import asyncio
import threading
from pathlib import Path

import pytest

from runtime.cache.roots import Root
from runtime.cache.start_cache import PassedOver, StartCache
from runtime.cache.threads import in_thread
from runtime.contract import CacheUse, Verdict
from tests.unit.runtime.cache.trees import COMPILE, FINGERPRINT

KEY = FINGERPRINT.key
DIGEST = "4f" * 32


def a_cache(tmp: Path, **use: object) -> StartCache:
    root = Root(tmp / "root", KEY)
    root.take()
    return StartCache(root, CacheUse(key=KEY).model_copy(update=use), tmp / "scratch", fingerprint=FINGERPRINT)


def compiled(cache: StartCache) -> None:
    path = cache.root.path / COMPILE / "rank_0_0" / "model"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")


async def test_from_nothing_to_something_to_offer(tmp_path: Path) -> None:
    cache = a_cache(tmp_path)
    compiled(cache)
    assert not cache.worth_offering, "not before it is proven"
    cache.line("saved AOT compiled function to there")
    use = await cache.proven(2.5)
    assert (use.verdict, use.compile_s, cache.worth_offering) == (Verdict.ABSENT, 2.5, True)
    assert cache.root.is_proven()


async def test_all_caches_of_an_engine_lie_in_its_root(tmp_path: Path) -> None:
    cache = a_cache(tmp_path)
    assert cache.environment["VLLM_CACHE_ROOT"] == str(cache.root.path)
    assert all(Path(place).is_relative_to(cache.root.path) for place in cache.environment.values())


async def test_only_what_was_used_as_it_came_is_passed_on_as_it_came(tmp_path: Path) -> None:
    cache = a_cache(tmp_path, origin="far", digest=DIGEST)
    cache.bundle = bundle = tmp_path / "bundle"
    cache.line("Directly load AOT compilation from path there")
    await cache.proven(None)
    first = cache.unchanged
    compiled(cache)
    use = await cache.proven(None)
    assert (first, cache.unchanged, use.verdict) == (bundle, None, Verdict.PARTLY)


@pytest.mark.parametrize(
    ("use", "suspect"),
    [
        ({}, None),
        ({"origin": "own"}, "own"),
        ({"origin": "far", "digest": DIGEST}, DIGEST),
        ({"origin": "far", "digest": DIGEST, "published": "5e" * 32}, DIGEST),
        ({"verdict": Verdict.ABSENT}, "own"),
        ({"verdict": Verdict.ABSENT, "published": DIGEST}, DIGEST),
    ],
)
def test_what_a_failure_may_come_of(tmp_path: Path, use: dict[str, object], suspect: str | None) -> None:
    assert a_cache(tmp_path, **use).suspect == suspect


async def test_a_root_that_no_engine_saw_keeps_its_proof(tmp_path: Path) -> None:
    for begun, kept in ((False, True), (True, False)):
        cache = a_cache(tmp_path / str(begun), origin="own")
        cache.scratch.mkdir()
        await cache.close(begun=begun)
        assert cache.root.is_proven() is kept
        assert not cache.scratch.exists()
        await cache.close(begun=begun)
    restored = a_cache(tmp_path / "restored", origin="far", digest=DIGEST)
    await restored.close(begun=False)
    assert not restored.root.is_proven(), "nobody proved it yet"


async def test_quarantined_is_what_was_left_alone(tmp_path: Path) -> None:
    cache = a_cache(tmp_path)
    cache.passed = PassedOver(quarantined=True)
    assert (await cache.proven(None)).verdict is Verdict.QUARANTINED


def test_notes_are_gathered(tmp_path: Path) -> None:
    cache = a_cache(tmp_path)
    cache.noted("one")
    cache.noted("")
    assert cache.noted("two", published=DIGEST).note == "one; two"
    assert cache.use.published == DIGEST


async def test_work_in_a_thread_is_over_when_its_caller_is() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work(stop: threading.Event) -> None:
        begun.set()
        assert stop.wait(20)
        ended.set()
        raise InterruptedError

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_work_in_a_thread_answers_and_fails_as_it_does() -> None:
    assert await in_thread(lambda stop: stop.is_set()) is False
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda _: 1 // 0)
