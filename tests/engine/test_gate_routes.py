"""The routes of the installed vLLM against the gate's lists: one that nobody has classified is an error here."""

import ast
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from runtime.ready.gate_routes import ANYONE, CLIENTS, HOST, Audience, audience_of

ROUTE_CALLS = {"get", "post", "put", "patch", "delete", "head", "options", "api_route", "websocket"}
ROUTE_CALLS |= {"add_api_route", "add_route", "add_api_websocket_route", "mount", "Mount", "route"}

# Servers of other commands, not of `vllm serve`: the supervisor of data parallel ranks and `vllm preload`.
ELSEWHERE = {"dp_supervisor.py", "preload.py"}

EVERYTHING = """
import json, os
os.environ |= {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
from typing import get_args
from vllm.entrypoints.launchers.app import build_app
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.tasks import SupportedTask
from vllm.utils.argparse_utils import FlexibleArgumentParser
flags = ["--enable-scale-out", "--enable-tokenizer-info-endpoint", "--enable-fault-tolerance", "--enable-offline-docs"]
args = make_arg_parser(FlexibleArgumentParser()).parse_args(
    ["--model", "x", "--middleware", "runtime.ready.gate_mount.MountedGate", *flags])
tasks = tuple(task for part in get_args(SupportedTask) for task in (get_args(part) or (part,)))
app = build_app(args, tasks, None)
print(json.dumps({
    "routes": sorted({route.path for route in app.routes}),
    "outermost": app.user_middleware[0].cls.__name__,
}))
"""


def known(path: str) -> bool:
    return path in ANYONE | CLIENTS | HOST or audience_of(path.replace("{", "").replace("}", "")) is Audience.CLIENTS


def in_source() -> Iterator[tuple[str, str]]:
    """(path, file) of each route that is written as a literal anywhere among vLLM's entry points."""
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    root = Path(spec.submodule_search_locations[0]) / "entrypoints"
    for file in sorted(root.rglob("*.py")):
        if file.name in ELSEWHERE:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and _name(node.func) in ROUTE_CALLS and node.args:
                first = node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value.startswith("/"):
                    yield first.value, str(file.relative_to(root))


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))


def test_every_route_in_the_source_is_classified() -> None:
    found = dict(in_source())
    assert len(found) > 60, "the routes are written in another way now: mend this test"
    assert {"/sleep", "/collective_rpc", "/v1/chat/completions", "/v1/realtime", "/health"} <= set(found)
    unknown = {path: file for path, file in found.items() if not known(path)}
    assert unknown == {}, "classify them in runtime/ready/gate_routes.py"


def test_every_route_of_the_built_server_is_classified() -> None:
    """With every task, every switch and dev mode: also routes that other packages add (SageMaker's adapters)."""
    found = subprocess.run([sys.executable, "-c", EVERYTHING], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-2000:]
    told = json.loads(found.stdout.splitlines()[-1])
    assert {"/adapters", "/invocations", "/static", "/fault_tolerance/apply"} <= set(told["routes"])
    assert [path for path in told["routes"] if not known(path)] == []
    assert told["outermost"] == "MountedGate", "nothing may answer before the gate"


def test_no_name_in_the_lists_is_out_of_date() -> None:
    """A route that vLLM no longer has would let its successor of another meaning in."""
    written = {path for path, _ in in_source()}
    added_elsewhere = {"/metrics", "/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json"}
    added_elsewhere |= {"/adapters", "/adapters/{adapter_name}", "/v1/audio/transcriptions", "/v1/audio/translations"}
    assert sorted((ANYONE | CLIENTS | HOST) - written - added_elsewhere) == []
