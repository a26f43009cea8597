"""Which lines tell which cause; each line was printed by vLLM 0.32 or a library below it."""

import pytest

from runtime.contract import FailureCause
from runtime.engine.causes import RULES, cause_of

LINES: list[tuple[FailureCause, bool, str]] = [
    (FailureCause.PORT_TAKEN, False, "OSError: [Errno 98] Address already in use"),
    (FailureCause.PORT_TAKEN, False, "torch.distributed.DistNetworkError: EADDRINUSE: port 29500"),
    (
        FailureCause.NO_COMPILER,
        True,
        "RuntimeError: Worker failed with error 'InvalidCxxCompiler: No working C++ compiler found in "
        "torch._inductor.config.cpp.cxx: (None, 'g++')', please check the stack trace above for the root cause",
    ),
    (FailureCause.NO_COMPILER, True, "FileNotFoundError: [Errno 2] No such file or directory: '/usr/bin/g++'"),
    (FailureCause.NO_COMPILER, True, "RuntimeError: Failed to find C compiler. Please specify via CC environment"),
    (FailureCause.NO_COMPILER, True, "main.cpp:1:10: fatal error: Python.h: No such file or directory"),
    (
        FailureCause.UNSUPPORTED_MODEL,
        True,
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig Value error, "
        "Model architectures ['NoSuchForCausalLM'] are not supported for now.",
    ),
    (
        FailureCause.UNSUPPORTED_MODEL,
        True,
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig Value error, The checkpoint "
        "you are trying to load has model type `nosuch` but Transformers does not recognize this architecture.",
    ),
    (FailureCause.NO_MEMORY, False, "MemoryError"),
    (FailureCause.NO_MEMORY, False, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
    (FailureCause.NO_MEMORY, False, "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
    (FailureCause.NO_MEMORY, False, "ValueError: No available memory for the cache blocks. Try increasing"),
    (FailureCause.NO_MEMORY, False, "  what():  std::bad_alloc"),
    (FailureCause.BAD_ARGUMENTS, True, "vllm: error: unrecognized arguments: --no-such-flag"),
    (FailureCause.BAD_ARGUMENTS, True, "vllm serve: error: argument --max-num-seqs: invalid int value: 'x'"),
    (
        FailureCause.BAD_ARGUMENTS,
        True,
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig Value error, User-specified "
        "max_model_len (999999) is greater than the derived max_model_len",
    ),
]


@pytest.mark.parametrize(("cause", "permanent", "line"), LINES, ids=[f"{c.value}: {line[:40]}" for c, _, line in LINES])
def test_a_line_tells_its_cause(cause: FailureCause, permanent: bool, line: str) -> None:
    rule = cause_of(["ValueError: of no cause", line])
    assert rule is not None
    assert (rule.cause, rule.permanent) == (cause, permanent)


@pytest.mark.parametrize("line", ["ValueError: added_tokens", "RuntimeError: cancelled", "KeyError: 'memory'", ""])
def test_other_lines_tell_none(line: str) -> None:
    assert cause_of([line]) is None


def test_every_rule_has_a_line() -> None:
    assert {rule.cause for rule in RULES} == {cause for cause, _, _ in LINES}
