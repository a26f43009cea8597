"""What a start looks at of the machine once its model is proven, and whether that stands in the way (preflight)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.contract import FailureCause
from runtime.ready.fault import Fault
from runtime.weights.finding import Code
from runtime.weights.integrity import ModelFacts, is_url
from runtime.weights.machine import read_facts
from runtime.weights.memory import Memory
from runtime.weights.needs import ranks_of, value_of, words_of
from runtime.weights.preflight import Facts, findings
from runtime.weights.safetensors import BadFileError, largest_tensor, read_header

_CAUSES: Mapping[Code, FailureCause] = {
    Code.HOST_MEMORY: FailureCause.NO_MEMORY,
    Code.SHARED_MEMORY: FailureCause.NO_MEMORY,
}
_WIDE = {"F32": 2, "F64": 4}
"""How many times smaller an element is in 16 bits, in which vLLM serves by itself what is stored so."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A proven model, and the machine that is to serve it."""

    model: ModelFacts
    machine: Facts

    @property
    def notes(self) -> tuple[str, ...]:
        """What costs time or memory and stops no start."""
        return tuple(str(each) for each in findings(self.machine) if each.level != "error")

    def refuse(self) -> None:
        """Raise Fault where a start would fail, before anything is spent on it; also what else is wrong is named."""
        wrong = [each for each in findings(self.machine) if each.level == "error"]
        if wrong:
            raise Fault(
                _CAUSES.get(wrong[0].code, FailureCause.SPAWN_FAILED),
                "the start would fail: " + "; ".join(f"{each.message}: {each.fix}" for each in wrong),
                {"finding": wrong[0].code.value},
            )


def look(model: str, proven: ModelFacts, args: Iterable[str], env: Mapping[str, str], *, on_host: bool) -> Seen:
    """Ask this machine, for an engine with `args` and `env`; `on_host`: its weights end in host memory.

    Headers are read again only where memory is tight, or the loader's buffers must hold the largest tensor.
    """
    words, directory = words_of(args), None if is_url(model) else Path(model)
    ranks, size = ranks_of(words), proven.weight_bytes
    try:
        facts = read_facts(directory, size, proven.largest_tensor_bytes or 0, ranks, env)
    except OSError:  # what the kernel does not tell stands in nobody's way
        facts = Facts(size, Memory(None), None, None, ranks=ranks)
    free = facts.memory.free_bytes
    if size is not None and free is not None and size * max(ranks, 2) > free:
        facts = replace(
            facts,
            largest_tensor_bytes=proven.largest_tensor_bytes or largest_tensor(proven.weights),
            held_bytes=least_held_bytes(proven, words),
        )
    return Seen(proven, replace(facts, on_host=on_host))


def least_held_bytes(proven: ModelFacts, words: list[str]) -> int:
    """The least that an engine may hold of the weights: a wrong refusal would be worse than a late failure."""
    stored = proven.weight_bytes or 0
    if value_of(words, "--quantization") or value_of(words, "-q"):
        return stored // 8  # 32 bits to 4
    if value_of(words, "--dtype") in {"float32", "float"}:
        return stored
    if not proven.weights:
        return stored // 2  # a bucket's: the headers were read elsewhere
    try:
        return sum(_held(path) for path in proven.weights)
    except (BadFileError, OSError):
        return stored // 2


def _held(path: Path) -> int:
    if path.suffix != ".safetensors":
        return path.stat().st_size // 2
    return sum(tensor.size_bytes // _WIDE.get(tensor.dtype, 1) for tensor in read_header(path).tensors.values())
