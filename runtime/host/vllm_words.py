"""vLLM's command line as somebody wrote it for a pod → the model, the served names, and what else an engine is given.

So an InferenceService keeps its arguments when a runtime runs `pilotlight-engine` in place of `vllm serve`. Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MOUNT = "/mnt/models"
"""Where KServe's storage initializer and its PVC sources put the model."""

_MODEL, _NAMES = "--model", "--served-model-name"
_PLACE = ("--host", "--port")


@dataclass(frozen=True, slots=True)
class Words:
    """A command line, read. `address` and `port`: `--host` and `--port` where they were written."""

    model: str
    served_names: tuple[str, ...]
    args: tuple[str, ...]
    address: str | None = None
    port: int | None = None


@dataclass
class _Reading:
    models: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    place: dict[str, str] = field(default_factory=dict)

    def take(self, flag: str, values: list[str], words: list[str]) -> None:
        name = flag.replace("_", "-")
        if name in (_MODEL, _NAMES, *_PLACE) and not (values and all(values)):
            raise ValueError(f"{flag} has no value: write it as {name}=VALUE")
        if name == _NAMES:
            self.names += values
        elif name in (_MODEL, *_PLACE):
            if len(values) > 1:
                raise ValueError(f"{values[1]!r} after {flag} belongs to no option: remove it")
            if name == _MODEL:
                self.models += values
            else:
                self.place[name] = values[0]
        else:
            self.args += words


def read_words(words: Sequence[str]) -> Words:
    """Read what follows `pilotlight-engine`, or the whole of `vllm serve MODEL …`.

    Names add up, as KServe appends a service's arguments to its runtime's. Raises ValueError, which says what to mend:
    two models, a value that is missing, a port that is no number.
    """
    rest = list(words)
    if rest[:2] == ["vllm", "serve"] or rest[:1] == ["serve"]:
        rest = rest[rest.index("serve") + 1 :]
    reading = _Reading()
    if rest and not rest[0].startswith("-"):
        reading.models.append(rest.pop(0))
    for option in _options(rest):
        reading.take(*option)
    different = list(dict.fromkeys(reading.models))
    if len(different) > 1:
        raise ValueError(f"two models, {different[0]!r} and {different[1]!r}: name one")
    return Words(
        model=different[0] if different else MOUNT,
        served_names=tuple(dict.fromkeys(reading.names)),
        args=tuple(reading.args),
        address=reading.place.get("--host"),
        port=_port(reading.place.get("--port")),
    )


def _options(words: Sequence[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """(flag, its values, the words as written): up to the next flag all are its values."""
    begins = [at for at, word in enumerate(words) if word.startswith("-") and not word[1:2].isdigit()]
    if not words:
        return
    if begins[:1] != [0]:
        raise ValueError(f"{words[0]!r} belongs to no option: write the model first, or as --model=…")
    for begin, end in zip(begins, [*begins[1:], len(words)], strict=True):
        flag, equals, value = words[begin].partition("=")
        yield flag, [*([value] if equals else []), *words[begin + 1 : end]], list(words[begin:end])


def _port(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise ValueError(f"--port {text!r} is no port: write a number from 1 to 65535")
    return int(text)
