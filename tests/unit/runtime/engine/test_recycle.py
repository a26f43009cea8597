"""Whether an engine that compiled is begun anew: a table of cases."""

from collections.abc import Mapping
from typing import Literal

import pytest

from runtime.contract import Verdict
from runtime.engine.recycle import given, recycle

MORE, LESS, HARDLY_LESS = 800_000, 720_000, 790_000


@pytest.mark.parametrize(
    ("verdict", "kv", "restored", "change", "again"),
    [
        (Verdict.ABSENT, LESS, MORE, {}, True),
        (Verdict.RECOMPILED, LESS, MORE, {}, True),
        (Verdict.PARTLY, LESS, MORE, {}, True),
        (Verdict.QUARANTINED, LESS, MORE, {}, True),
        (Verdict.ABSENT, HARDLY_LESS, MORE, {}, False),
        (Verdict.ABSENT, 776_000, MORE, {}, False),  # 3 % less
        (Verdict.ABSENT, 775_999, MORE, {}, True),
        (Verdict.ABSENT, MORE, LESS, {}, False),
        (Verdict.ABSENT, LESS, None, {}, True),  # nothing is known yet: tried once
        (Verdict.USED, LESS, MORE, {}, False),  # something else took the memory: compiling did not
        (None, LESS, MORE, {}, False),
        (Verdict.ABSENT, None, MORE, {}, False),
        (Verdict.ABSENT, LESS, MORE, {"compiles": False}, False),
        (Verdict.ABSENT, LESS, MORE, {"size_given": True}, False),
        (Verdict.ABSENT, LESS, MORE, {"recycled_before": True}, False),
        (Verdict.ABSENT, LESS, MORE, {"awaited": True}, False),
        (Verdict.ABSENT, LESS, MORE, {"awaited": None}, True),
    ],
)
def test_the_table(
    verdict: Verdict | None, kv: int | None, restored: int | None, change: Mapping[str, bool | None], again: bool
) -> None:
    facts = {"size_given": False, "compiles": True, "recycled_before": False, "awaited": False, **change}
    why = recycle(
        verdict=verdict,
        kv_tokens=kv,
        restored_kv_tokens=restored,
        size_given=bool(facts["size_given"]),
        compiles=bool(facts["compiles"]),
        recycled_before=bool(facts["recycled_before"]),
        awaited=facts["awaited"],
    )
    assert (why is not None) is again


def test_what_is_said() -> None:
    facts = {"size_given": False, "compiles": True, "recycled_before": False}
    assert recycle(verdict=Verdict.ABSENT, kv_tokens=LESS, restored_kv_tokens=MORE, awaited=False, **facts) == (
        "its KV cache has 720,000 tokens, with compiled code it has 800,000"
    )


@pytest.mark.parametrize(
    ("platform", "args", "env", "expected"),
    [
        ("cuda", (), {}, False),
        ("cuda", ("--gpu-memory-utilization=0.9",), {}, False),
        ("cuda", ("--kv-cache-memory-bytes=8G",), {}, True),
        ("cuda", ("--kv-cache-memory-bytes", "8G"), {}, True),
        ("cuda", ("--kv_cache_memory_bytes=8G",), {}, True),
        ("cuda", ("--kv-cache-memory=8G",), {}, True),
        ("cuda", ("--num-gpu-blocks-override=100",), {}, True),
        ("cpu", (), {}, True),
        ("cpu", (), {"VLLM_CPU_KVCACHE_SPACE": "4"}, True),
    ],
)
def test_a_size_that_was_given(
    platform: Literal["cpu", "cuda"], args: tuple[str, ...], env: Mapping[str, str], expected: bool
) -> None:
    assert given(platform, args, env) is expected
