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
        words = [word for arg in args for word in arg.split("=", 1)]
        flags = [word.replace("_", "-") if word.startswith("--") else word for word in words]
        load_format = value_of(flags, "--load-format") or "auto"
        return cls(
            weights=load_format != "dummy",
            tokenizer=not {"--tokenizer", "--skip-tokenizer-init"} & set(flags),
            load_format=load_format.lower(),
            pickle=pickle,
            list_required=list_required,
        )


def value_of(words: list[str], flag: str) -> str | None:
    """What stands after `flag` the last time it is given; the last one counts, as for vLLM."""
    places = [place for place, word in enumerate(words[:-1]) if word == flag]
    return words[places[-1] + 1] if places else None
