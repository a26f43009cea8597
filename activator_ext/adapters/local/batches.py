"""`containerConcurrency` → how many requests an engine computes together, where its own arguments do not say."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

_SEQS, _TOKENS = "--max-num-seqs", "--max-num-batched-tokens"
_SHORTEST = len("--max-num-s")
"""An abbreviation that vLLM's parser takes for one of the two has at least so many characters."""
MOST = 256
"""vLLM's own `--max-num-seqs` for a server on most GPUs: a higher limit of requests asks for no larger batches."""


def limited(args: Sequence[str], concurrency: int | None) -> tuple[str, ...]:
    """`args`, with `--max-num-seqs` where no more than `concurrency` requests ever come.

    A smaller batch takes less memory and fewer captured graphs. Left alone: no limit (0 or absent), one above MOST, an
    engine that has the flag, or whose steps take fewer tokens than that, which vLLM would refuse.
    """
    given = dict(_given(args))
    if not concurrency or concurrency > MOST or _SEQS in given:
        return tuple(args)
    tokens = given.get(_TOKENS, "")
    if tokens.isdecimal() and int(tokens) < concurrency:
        return tuple(args)
    return (*args, f"{_SEQS}={concurrency}")


def _given(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(flag, value) of the two flags that count here, in any spelling; later ones last."""
    for word, following in pairwise((*args, "")):
        name, equals, value = word.partition("=")
        name = name.replace("_", "-")
        for flag in (_SEQS, _TOKENS):
            if len(name) >= _SHORTEST and flag.startswith(name):
                yield flag, value if equals else following
