"""Writes docs/reference from the code: command line, API, metrics, stages, policy.

    python -m scripts.reference

A test compares the pages with the code, so that neither can change without the other.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import typer.main
from prometheus_client.metrics import MetricWrapperBase
from typer.testing import CliRunner

from activator_ext.adapters.local.example import EXAMPLE_POLICY
from activator_ext.app.api import build_api
from activator_ext.app.cli import app
from activator_ext.app.metrics import Metrics as ControllerMetrics
from activator_ext.app.views import ControllerFacade
from activator_ext.portal.clock import Clock
from activator_ext.portal.loads import Loads
from activator_ext.portal.metrics import Metrics as PortalMetrics
from activator_ext.portal.room import Room
from activator_ext.portal.table import Table
from runtime.contract import Stage
from runtime.engine.cpu import Cpu
from runtime.engine.cuda import Cuda
from runtime.engine.platforms import Platform
from scripts import access, bad_input, failures, faults, objects, pod_stages, start_faults

DIRECTORY = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTE = "*Written by `make reference` from the code; edit the code.*"

# Pages that a test writes, because only running it says what they say.
MEASURED: Mapping[str, str] = {"clients.md": "Clients", "bad-objects.md": "Bad objects"}

STAGES: Mapping[Stage, str] = {
    Stage.ORDER: "from wanting the start to the host taking the order",
    Stage.MODEL_CHECK: "proving the model directory whole, before any process",
    Stage.SNAPSHOT_RESTORE: "an engine from an image of one: choosing it, CRIU's restore, its new credential and port",
    Stage.CACHE_RESTORE: "finding compiled code for its fingerprint: fetched, verified, unpacked; beside `model_check`",
    Stage.FAILED_LOADER: "engines whose loader failed, each followed by the next source in a fresh process; rare",
    Stage.FORK: "waiting for vLLM's imports in the fork server, and the fork; a spawn has only the spawn here",
    Stage.INTERPRETER_API: "Python of the API server begins, up to its first line of ours",
    Stage.IMPORTS_API: "the API server imports vLLM and torch",
    Stage.CONFIGURATION: "arguments, model config, resolved architecture",
    Stage.INTERPRETER_CORE: "Python of the engine core begins",
    Stage.IMPORTS_CORE: "the engine core imports vLLM and torch once more",
    Stage.ENGINE_CONSTRUCTION: "the engine core is made, its executor spawned",
    Stage.INTERPRETER_WORKER: "Python of the worker begins",
    Stage.IMPORTS_WORKER: "the worker imports vLLM and torch a third time",
    Stage.DEVICE_INIT: "device and distributed backend",
    Stage.MODEL_CONSTRUCTION: "modules without weights",
    Stage.WEIGHT_LOAD: "weights read and copied into place",
    Stage.WEIGHT_CONVERT: "weights repacked for the kernels",
    Stage.MEMORY_PROFILE: "how much memory is left for the KV cache",
    Stage.COMPILE: "torch.compile, or loading what it compiled earlier",
    Stage.WARM_UP: "first passes through the compiled model",
    Stage.KV_CACHE: "KV cache allocated",
    Stage.GRAPH_CAPTURE: "CUDA graphs captured",
    Stage.ENGINE_READY: "the engine core reports to the API server",
    Stage.SERVER: "the HTTP server comes up",
    Stage.READY_PROBE: "`/health` and `/v1/models`",
    Stage.GOLDEN_PROMPT: "the golden prompt is answered",
}


def pages() -> dict[str, str]:
    """Each page's text by its file name."""
    bodies = {
        "cli.md": ("Command line", _cli()),
        "api.md": ("HTTP API", _api()),
        "metrics.md": ("Metrics", _metrics()),
        "stages.md": ("Stages of a start", _stages()),
        "policy.md": ("PrewarmPolicy", f"Every key, with its default.\n\n```yaml\n{EXAMPLE_POLICY}```"),
        "objects.md": ("Objects in a cluster", objects.page()),
        "faults.md": ("Faults and what comes of them", faults.page()),
        "start-faults.md": ("Faults of a start and its compiled code", start_faults.page()),
        "bad-input.md": ("Bad input", bad_input.page()),
        "failures.md": ("Failures", failures.page()),
        "access.md": ("Access", access.page()),
    }
    titles = {name: title for name, (title, _) in bodies.items()} | dict(MEASURED)
    index = "\n".join(f"- [{title}]({name})" for name, title in titles.items())
    bodies["README.md"] = ("Reference", index)
    return {name: f"# {title}\n\n{NOTE}\n\n{body}\n" for name, (title, body) in bodies.items()}


def _cli() -> str:
    parts = []
    for name in _names(typer.main.get_command(app), ()):
        # The width of no particular terminal.
        shown = CliRunner().invoke(app, [*name, "--help"], prog_name="pilotlight", env={"COLUMNS": "80"})
        title = " ".join(["pilotlight", *name])
        text = "\n".join(line.rstrip() for line in shown.output.strip("\n").splitlines())
        parts.append(f"## {title}\n\n```\n{text}\n```")
    return "\n\n".join(parts)


def _names(command: object, name: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    """The command itself and, in their order, all below it."""
    yield name
    for below, each in getattr(command, "commands", {}).items():
        yield from _names(each, (*name, below))


def _api() -> str:
    document = build_api(cast("ControllerFacade", object()), "shown-nowhere", "0").openapi()
    rows = [
        (f"`{method.upper()}`", f"`{path}`", operation.get("summary", ""), _parameters(operation))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return (
        f"{document['info']['description']}\n\n{_table(('', 'path', 'what', 'parameters'), rows)}\n\n"
        "A running `pilotlight up` shows bodies and answers in full at `/docs` and `/openapi.json`."
    )


def _parameters(operation: Mapping[str, Any]) -> str:
    named = [f"`{parameter['name']}`" for parameter in operation.get("parameters", ()) if parameter["in"] != "path"]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    return ", ".join([*named, *([f"body `{body['$ref'].rpartition('/')[2]}`"] if "$ref" in body else [])])


def _metrics() -> str:
    head = ("metric", "type", "labels", "meaning")
    return (
        "`GET /metrics` of the API answers both parts as one text; labels are bounded by the services that exist.\n\n"
        f"## Controller\n\n{_table(head, _families(ControllerMetrics('0')))}\n\n"
        f"## Portal\n\n{_table(head, _portal_families())}"
    )


def _families(owner: object) -> Iterable[tuple[str, ...]]:
    for metric in vars(owner).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = ", ".join(f"`{label}`" for label in metric._labelnames)
            yield f"`{name}`", family.type, labels, family.documentation.removesuffix(".")


def _portal_families() -> Iterable[tuple[str, ...]]:
    for family in PortalMetrics().families(Loads(Room(0, 0), Clock()), Table()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(
            f"`{label}`" for label in getattr(family, "_labelnames", ())
        )  # a family of our own has no public word for them
        yield f"`{name}`", family.type, labels, family.documentation.removesuffix(".")


def _stages() -> str:
    rows = [(f"`{stage.value}`", STAGES[stage], _evidence(Cpu(), stage), _evidence(Cuda(), stage)) for stage in Stage]
    return (
        "The list is closed. A stage needs evidence for its begin and for its end; seconds that none covers are shown "
        "as unnamed. Where vLLM has a span for the same stretch, the stage is checked against it.\n\n"
        + _table(("stage", "what happens", "span that checks it, CPU", "span that checks it, CUDA"), rows)
        + f"\n\n{pod_stages.section()}"
    )


def _evidence(platform: Platform, stage: Stage) -> str:
    edges = [(check.begin, check.end) for check in platform.checks if stage in check.stages]
    return "; ".join(
        begin.name if begin.name == end.name else f"{begin.name} ({begin.edge}) → {end.name} ({end.edge})"
        for begin, end in edges
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '¦') for cell in line)} |" for line in lines)


def main() -> int:
    """Write every page, remove what is none."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for stale in {path.name for path in DIRECTORY.iterdir()} - wanted.keys() - MEASURED.keys():
        (DIRECTORY / stale).unlink()
    for name, text in wanted.items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
    print(f"{os.path.relpath(DIRECTORY)}: {len(wanted)} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
