"""What an engine will read of its model directory, told from its arguments, and what its owner allows."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Needs:
    """What the engine will read from the directory; dummy weights and a foreign tokenizer need less.

    `load_format`: vLLM's word for how weights are read, `auto` where nothing is said. `pickle`: file-name patterns
    (`pytorch_model*.bin`) of pickled weights that the owner allows by name; everything else pickled is refused.
    `list_required`: the directory must hold our list of digests, which is written last, else it counts as incomplete.
    """

    weights: bool = True
    tokenizer: bool = True
    load_format: str = "auto"
    pickle: tuple[str, ...] = ()
    list_required: bool = False

    @classmethod
    def of(cls, args: Iterable[str], *, pickle: tuple[str, ...] = (), list_required: bool = False) -> "Needs":
        """Read the needs from vLLM arguments (`--load-format dummy`, `--tokenizer X`, `--skip-tokenizer-init`)."""
        flags = words_of(args)
        load_format = value_of(flags, "--load-format") or "auto"
        return cls(
            weights=load_format != "dummy",
            tokenizer=not {"--tokenizer", "--skip-tokenizer-init"} & set(flags),
            load_format=load_format.lower(),
            pickle=pickle,
            list_required=list_required,
        )


_PARALLEL = (
    ("--tensor-parallel-size", "-tp"),
    ("--pipeline-parallel-size", "-pp"),
    ("--data-parallel-size", "-dp"),
)


def ranks_of(args: Iterable[str]) -> int:
    """How many processes of one engine hold weights on this machine; what is no number counts as 1."""
    words = words_of(args)
    found = 1
    for flags in _PARALLEL:
        given = next((value for flag in flags if (value := value_of(words, flag)) is not None), "1")
        found *= max(1, int(given)) if given.isdecimal() else 1
    return found


def words_of(args: Iterable[str]) -> list[str]:
    """Arguments as single words, `--a_b=c` as `--a-b` and `c`."""
    words = [word for arg in args for word in arg.split("=", 1)]
    return [word.replace("_", "-") if word.startswith("--") else word for word in words]


def value_of(words: list[str], flag: str) -> str | None:
    """What stands after `flag` the last time it is given; the last one counts, as for vLLM."""
    places = [place for place, word in enumerate(words[:-1]) if word == flag]
    return words[places[-1] + 1] if places else None
