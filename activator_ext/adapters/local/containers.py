"""A runtime's container and what the predictor lays over it → one command line and environment.

Each word keeps its place. Merged as KServe merges them: command, image and each variable replaced, args appended.
Then `{{.Name}}`, `{{.Namespace}}` (KServe) and `$(VARIABLE)` (Kubernetes) are filled in.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from activator_ext.adapters.local.documents import Document, Path, Where, Word
from activator_ext.adapters.local.findings import Findings, quoted
from activator_ext.adapters.local.inference import Container, ContainerFields
from activator_ext.core.model import ServiceId

MAIN = "kserve-container"
"""Name that KServe gives the container that serves."""
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
    found: Layer | None = None
    for index, container in enumerate(containers):
        here = (*path, index)
        if container.name == MAIN and found is None:
            found = Layer(container, document, here)
        elif container.name == MAIN:
            findings.error(*document.where(here), f"a second container is named {MAIN}", "Remove one of them.")
        else:
            fix = f"Only {MAIN} is run."
            findings.warning(*document.where(here), f"local mode ignores container {quoted(container.name)}", fix)
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
            if variable.value is not None:
                env[variable.name] = fill.word(word, env)
    commands = [_words(layer, "command") for layer in layers if layer.fields.command]
    args = [word for layer in layers for word in _words(layer, "args")]
    return EngineContainer(
        image=next((layer.fields.image for layer in reversed(layers) if layer.fields.image), None),
        command=tuple(fill.word(word, env) for word in (commands[-1] if commands else [])),
        args=tuple(fill.word(word, env) for word in args),
        env=env,
        gpu=next((where for layer in layers if (where := _gpu(layer))), None),
        where=layers[0].document.where(layers[0].path),
    )


@dataclass(frozen=True)
class _Fill:
    service: ServiceId
    findings: Findings

    def word(self, word: Word, env: Mapping[str, Word]) -> Word:
        text = _TEMPLATE.sub(lambda match: self._template(match, word), word.text)
        return Word(_REFERENCE.sub(lambda match: self._reference(match, word, env), text), word.where)

    def _template(self, match: re.Match[str], word: Word) -> str:
        known = {".Name": self.service.name, ".Namespace": self.service.namespace}
        value = known.get(match[1].strip())
        if value is None:
            message = f"the template {quoted(match[0])} is not known here"
            self.findings.error(*word.where, message, "Use {{.Name}} or {{.Namespace}}, or write the text itself.")
        return value or ""

    def _reference(self, match: re.Match[str], word: Word, env: Mapping[str, Word]) -> str:
        name = match[1]
        if name is None:
            return "$"  # `$$(VAR)` is Kubernetes' way to write a literal `$(VAR)`
        if name not in env:
            fix = f"Give {name[:80]} a value under env; it is passed on as it stands."
            self.findings.warning(*word.where, f"$({name[:80]}) has no value here", fix)
            return match[0]
        return env[name].text


def _words(layer: Layer, field: str) -> list[Word]:
    texts: list[str] = getattr(layer.fields, field)
    return [Word(text, layer.document.where((*layer.path, field, index))) for index, text in enumerate(texts)]


def _gpu(layer: Layer) -> Where | None:
    for field in ("requests", "limits"):
        if str(getattr(layer.fields.resources, field).get("nvidia.com/gpu", "0")) != "0":
            return layer.document.where((*layer.path, "resources", field, "nvidia.com/gpu"))
    return None
