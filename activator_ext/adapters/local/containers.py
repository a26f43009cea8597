"""A runtime's container and what the predictor lays over it → one command line and environment.

Each word keeps its place. Merged as KServe merges them: command, image and each variable replaced, args appended.
Then `{{.Name}}`, `{{.Namespace}}` (KServe) and `$(VARIABLE)` (Kubernetes) are filled in.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from activator_ext.adapters.local.documents import Document, Path, Where, Word
from activator_ext.adapters.local.findings import Findings, quoted
from activator_ext.adapters.local.inference import Container, ContainerFields
from activator_ext.core.model import ServiceId

MAIN = "kserve-container"
"""Name that KServe gives the container that serves."""
MAX_WORD = 131_071
"""Longest word, in bytes, that Linux hands to a process (MAX_ARG_STRLEN, 32 pages, with a closing NUL)."""
MAX_COMMAND_LINE = 2**20
"""Most bytes of arguments and variables together: Linux takes 2 MiB by default, the user's own variables included."""
_TEMPLATE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")


@dataclass(frozen=True)
class Layer:
    """A container as it stands at `path` of a document."""

    fields: ContainerFields
    document: Document
    path: Path


@dataclass(frozen=True)
class EngineContainer:
    """The merged container. `env`: only variables with a value. `gpu`: where a GPU is asked for."""

    image: str | None
    command: tuple[Word, ...]
    args: tuple[Word, ...]
    env: Mapping[str, Word]
    gpu: Where | None
    where: Where


def main_container(containers: Sequence[Container], document: Document, path: Path, findings: Findings) -> Layer | None:
    """The one named kserve-container; the others are reported as ignored."""
    return _main(containers, [container.name == MAIN for container in containers], document, path, findings)


def own_container(containers: Sequence[Container], document: Document, path: Path, findings: Findings) -> Layer | None:
    """The main one of a predictor without a model: KServe names so the only one, or a first one without a name."""
    only = len(containers) == 1 or not containers[0].name
    return _main(
        containers,
        [index == 0 if only else c.name == MAIN for index, c in enumerate(containers)],
        document,
        path,
        findings,
    )


def _main(
    containers: Sequence[Container], chosen: Sequence[bool], document: Document, path: Path, findings: Findings
) -> Layer | None:
    found: Layer | None = None
    for index, container in enumerate(containers):
        here = (*path, index)
        if chosen[index] and found is None:
            found = Layer(container, document, here)
        elif container.name == MAIN:
            findings.error(*document.where(here), f"a second container is named {MAIN}", "Remove one of them.")
        else:
            fix = f"Only {MAIN} is run."
            findings.warning(
                *document.where(here), f"local mode ignores container {quoted(container.name or index)}", fix
            )
    if found is None:
        findings.error(*document.where(path), f"no container is named {MAIN}", f"Name the engine's container {MAIN}.")
    return found


def merge(layers: Sequence[Layer], service: ServiceId, findings: Findings) -> EngineContainer:
    """One container of all layers, the last one on top, with every template and reference filled in."""
    fill = _Fill(service, findings)
    env: dict[str, Word] = {}
    for layer in layers:
        for index, variable in enumerate(layer.fields.env):
            word = Word(variable.value or "", layer.document.where((*layer.path, "env", index)))
            env.pop(variable.name, None)
            filled = None if variable.value is None else fill.word(word, env)
            if filled is not None:
                env[variable.name] = filled
    commands = [_words(layer, "command") for layer in layers if layer.fields.command]
    args = [word for layer in layers for word in _words(layer, "args")]
    container = EngineContainer(
        image=next((layer.fields.image for layer in reversed(layers) if layer.fields.image), None),
        command=fill.words(commands[-1] if commands else [], env),
        args=fill.words(args, env),
        env=env,
        gpu=next((where for layer in layers if (where := _gpu(layer))), None),
        where=layers[0].document.where(layers[0].path),
    )
    _check_length(container, findings)
    return container


def _check_length(container: EngineContainer, findings: Findings) -> None:
    words = (*container.command, *container.args, *container.env.values())
    length = sum(len(word.text.encode()) for word in words) + sum(len(name) for name in container.env)
    if length > MAX_COMMAND_LINE:
        message = f"{length} bytes of arguments and variables, more than the {MAX_COMMAND_LINE} that a process is given"
        findings.error(*container.where, message, "Write fewer or shorter ones.")


@dataclass(frozen=True)
class _Fill:
    service: ServiceId
    findings: Findings

    def words(self, words: Sequence[Word], env: Mapping[str, Word]) -> tuple[Word, ...]:
        filled = (self.word(word, env) for word in words)
        return tuple(word for word in filled if word is not None)

    def word(self, word: Word, env: Mapping[str, Word]) -> Word | None:
        """None, with an error, for one that no process can be given."""
        try:
            # Beyond the last }} each {{ would look for one to the end of the text, in vain.
            templates = _TEMPLATE.finditer(word.text, 0, word.text.rfind("}}") + 2)
            text = _filled(word.text, templates, lambda match: self._template(match, word))
            references = _REFERENCE.finditer(text)
            return Word(_filled(text, references, lambda match: self._reference(match, word, env)), word.where)
        except OverflowError:
            message = f"it is longer than the {MAX_WORD} bytes that a process is given as one word"
            self.findings.error(*word.where, message, "Write a shorter one.")
            return None

    def _template(self, match: re.Match[str], word: Word) -> str:
        known = {".Name": self.service.name, ".Namespace": self.service.namespace}
        value = known.get(match[1].strip())
        if value is None:
            message = f"the template {quoted(match[0])} is not known here"
            self.findings.error(*word.where, message, "Use {{.Name}} or {{.Namespace}}, or write the text itself.")
        return match[0] if value is None else value

    def _reference(self, match: re.Match[str], word: Word, env: Mapping[str, Word]) -> str:
        name = match[1]
        if name is None:
            return "$"  # `$$(VAR)` is Kubernetes' way to write a literal `$(VAR)`
        if name not in env:
            fix = f"Give {name[:80]} a value under env; it is passed on as it stands."
            self.findings.warning(*word.where, f"$({name[:80]}) has no value here", fix)
            return match[0]
        return env[name].text


def _filled(text: str, matches: Iterator[re.Match[str]], value: Callable[[re.Match[str]], str]) -> str:
    """`text` with each match replaced.

    Raises OverflowError as soon as it is longer than MAX_WORD: a chain of variables, each ten times the one before,
    would fill the memory.
    """
    pieces: list[str] = []
    done = length = 0
    for match in matches:
        pieces += (text[done : match.start()], value(match))
        done = match.end()
        length += len(pieces[-2].encode()) + len(pieces[-1].encode())
        if length > MAX_WORD:
            raise OverflowError
    if length + len(text[done:].encode()) > MAX_WORD:
        raise OverflowError
    return "".join([*pieces, text[done:]])


def _words(layer: Layer, field: str) -> list[Word]:
    texts: list[str] = getattr(layer.fields, field)
    return [Word(text, layer.document.where((*layer.path, field, index))) for index, text in enumerate(texts)]


def _gpu(layer: Layer) -> Where | None:
    for field in ("requests", "limits"):
        if str(getattr(layer.fields.resources, field).get("nvidia.com/gpu", "0")) != "0":
            return layer.document.where((*layer.path, "resources", field, "nvidia.com/gpu"))
    return None
