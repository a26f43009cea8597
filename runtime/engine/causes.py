"""What the engine's last lines say of why it ended: the cause, whether it would end so again, and what to do.

Pure. The lines are those of vLLM 0.32 and of the libraries below it, seen on a CPU (tests/data/failures) or read in
their source; the first rule that finds its line wins.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from runtime.contract import FailureCause


@dataclass(frozen=True, slots=True)
class CauseRule:
    """A line that tells a cause. `permanent`: the same spec and files would end so again; `fix` is what helps."""

    cause: FailureCause
    permanent: bool
    fix: str
    pattern: re.Pattern[str]


def _rule(cause: FailureCause, fix: str, *patterns: str, permanent: bool) -> CauseRule:
    return CauseRule(cause, permanent, fix, re.compile("|".join(patterns)))


RULES: tuple[CauseRule, ...] = (
    _rule(
        FailureCause.PORT_TAKEN,
        "another process took its port meanwhile; the next try takes another one",
        r"\[Errno 98\]",
        r"EADDRINUSE",
        r"[Aa]ddress already in use",
        permanent=False,
    ),
    _rule(
        FailureCause.NO_COMPILER,
        "install a C++ compiler and Python's headers where the host runs (Debian: g++, python3-dev)",
        r"InvalidCxxCompiler",
        r"No working C\+\+ compiler found",
        r"Failed to find C compiler",
        r"No such file or directory: '\S*(?:g\+\+|gcc|cc|c\+\+|clang\+\+|clang)'",
        r"(?:g\+\+|gcc|clang\+\+): (?:command )?not found",
        r"Python\.h: No such file",
        permanent=True,
    ),
    _rule(
        FailureCause.UNSUPPORTED_MODEL,
        "name another model, or run a vLLM that knows this one",
        r"Model architectures? .* (?:is|are) not supported",
        r"is not supported anymore",
        r"does not recognize this architecture",
        r"has no vLLM implementation",
        r"No model architectures are specified",
        permanent=True,
    ),
    _rule(
        FailureCause.NO_MEMORY,
        "give it more memory, or let it ask for less (--max-model-len, --max-num-seqs, VLLM_CPU_KVCACHE_SPACE)",
        r"\bMemoryError\b",
        r"out of memory",
        r"OutOfMemoryError",
        r"can't allocate memory",
        r"[Cc]annot allocate memory",
        r"std::bad_alloc",
        r"No available memory for the cache blocks",
        r"larger than the available KV cache memory",
        r"is less than desired [CG]PU memory utilization",
        permanent=False,
    ),
    _rule(
        FailureCause.BAD_ARGUMENTS,
        "correct the arguments of the service",
        r"\berror: (?:unrecognized arguments|argument |ambiguous option|the following arguments)",
        r"validation errors? for \w*(?:Config|Args)\b",
        permanent=True,
    ),
)


def cause_of(lines: Iterable[str]) -> CauseRule | None:
    """The rule of the first cause that one of these lines tells; None where none does."""
    known = tuple(lines)
    for rule in RULES:
        if any(rule.pattern.search(line) for line in known):
            return rule
    return None
