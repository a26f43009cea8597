"""One start → its fingerprint: what the spec, the model directory, the software and the machine say, put together.

The model's path is no input: the engine is started with its run directory as working directory and the model as a
relative link in it, so that the path is the same everywhere. Nor is the cache root.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from runtime.cache.arguments import argument_inputs
from runtime.cache.compile_inputs import CompileInputs, compile_inputs
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.machine import Machine, machine_inputs, this_machine
from runtime.cache.structure import structure_inputs
from runtime.cache.variables import freezes_weights, variable_inputs
from runtime.cache.wheels import software_inputs
from runtime.contract import EngineSpec

ARTIFACTS = "1"
"""Grows when our own plugin or launcher changes what the engine compiles, or where it puts it."""


def fingerprint_of(
    spec: EngineSpec,
    *,
    environ: Mapping[str, str],
    args: Sequence[str] | None = None,
    machine: Machine | None = None,
    software: Mapping[str, str] | None = None,
    table: CompileInputs | None = None,
) -> Fingerprint:
    """The fingerprint of an engine of `spec`.

    `environ`: its whole environment as the launcher sets it, so that nothing of a shell or a pod is in it; where it and
    the spec differ, it counts. `args`: what follows `serve MODEL`, None for the spec's own.
    `machine` and `software` default to those that run this. Raises StructureError (model directory), MachineError,
    NvmlError; nothing of torch or vLLM is imported.
    """
    known = table or compile_inputs()
    environment = {**spec.env, **environ}
    arguments = argument_inputs(spec.args if args is None else args, known)
    variables = variable_inputs(environment, known)
    frozen = freezes_weights(environment, arguments)
    return Fingerprint(
        {
            "artifacts": ARTIFACTS,
            "platform": spec.platform,
            **machine_inputs(
                machine or this_machine(spec.platform, environment),
                spec.platform,
                environment.get("CUDA_VISIBLE_DEVICES"),
            ),
            **(software_inputs(environ=environment) if software is None else software),
            **_model(spec.model, frozen=frozen),
            **{f"argument.{name}": value for name, value in arguments.items()},
            **{f"argument.{name}.files": digest for name, digest in _named_files(arguments)},
            **{f"variable.{name}": value for name, value in variables.items()},
        }
    )


def _model(model: str, *, frozen: bool) -> dict[str, str]:
    """A URL stands for what lies there: nothing is fetched for a fingerprint."""
    if "://" in model:
        return {"model.url": model}
    return structure_inputs(Path(model), frozen=frozen)


def _named_files(arguments: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Arguments that count and name files here (a draft model, another configuration): their content counts, too."""
    for name, value in arguments.items():
        facts = [fact for text in _texts(value) for fact in _content(text)]
        if facts:
            yield name, "sha256:" + hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _texts(value: str) -> Iterator[str]:
    try:
        yield from _leaves(json.loads(value))
    except ValueError:
        yield value


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)


def _content(text: str) -> Iterator[str]:
    if not text.startswith("/"):
        return
    path = Path(text)
    if path.is_dir():
        yield from (f"{name}={value}" for name, value in sorted(structure_inputs(path).items()))
    elif path.is_file():
        with path.open("rb") as file:
            yield hashlib.file_digest(file, "sha256").hexdigest()
