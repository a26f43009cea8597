"""`pilotlight-engine`'s own options, each a flag or a variable of the pod, and what of the pod reaches the engine."""

import argparse
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from runtime.cache.stores.baked import ROOT as BAKED
from runtime.contract import EngineSpec, Golden
from runtime.engine.argv import allowed_env, refuse_reserved
from runtime.engine.launch import Listen
from runtime.host.reporter import TOKEN, Controller
from runtime.host.vllm_words import Words, read_words

PORT = 8080
"""What KServe and Knative take a container's port for, where it names none."""
ROOT = Path("/var/lib/pilotlight")
TRUST = Path("/etc/pilotlight/trust.yaml")
"""Read if it is there and no other is named."""
DRAIN_S = 900.0
LET_GO_S = 5.0
"""From SIGTERM to the first request that is refused: in a cluster a Service, a gateway and clients learn late."""
START_S = 1800.0

# What Kubernetes writes into each pod for each Service of its namespace. A Service called `vllm` is VLLM_PORT.
_SERVICE_LINK = re.compile(
    r"[^=]*_(?:PORT(?:_\d+_[A-Z]+)?=(?:tcp|udp|sctp)://.*|PORT_\d+_[A-Z]+_(?:PROTO|PORT|ADDR)=.*|SERVICE_(?:HOST|PORT\w*)=.*)"
)
_SERVICE = re.compile(r"[a-z0-9][a-z0-9-]*/[a-z0-9][-a-z0-9.]*")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """All that one pod's host needs. `dropped`: variables that were set and that no engine may have."""

    spec: EngineSpec
    listen: Listen
    root: Path
    stores: tuple[str, ...]
    publish_to: str | None
    trust: Path | None
    signing_key: Path | None
    fork: bool
    let_go_s: float
    command: tuple[str, ...] | None
    shapes: bool
    dropped: tuple[str, ...]
    controller: Controller | None = None


def read_options(argv: Sequence[str], environ: Mapping[str, str]) -> EngineOptions:
    """The command line: ours, `--`, vLLM's; without `--` all of it is vLLM's, except --help and --version.

    Raises ValueError with what to mend; argparse ends the process with 2 on an option that it does not know.
    """
    ours, theirs = _split(argv)
    given = _parser(environ).parse_args(ours)
    words = read_words(theirs)
    refuse_reserved(words.args)
    passed, dropped = engine_environment(environ)
    names = words.served_names
    service = given.service or next((name for name in names if _SERVICE.fullmatch(name)), "default/engine")
    try:
        spec = EngineSpec(
            service=service,
            served_names=names or (words.model,),
            model=words.model,
            args=words.args,
            env=passed,
            platform=_platform(given.platform),
            pickle=tuple(given.allow_pickle or environ.get("PILOTLIGHT_ALLOW_PICKLE", "").split()),
            golden=_golden(given.golden),
            start_timeout_s=given.start_timeout_s,
            drain_timeout_s=given.drain_s,
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))} {service!r}: {first['msg']}") from error
    return EngineOptions(
        spec=spec,
        listen=_listen(given.listen, words),
        root=given.root,
        stores=(
            *(("baked:",) if BAKED.is_dir() else ()),
            *(given.store or environ.get("PILOTLIGHT_STORES", "").split()),
        ),
        publish_to=given.publish_to,
        trust=given.trust or (TRUST if TRUST.is_file() else None),
        signing_key=given.signing_key,
        fork=given.fork,
        let_go_s=given.let_go_s,
        command=tuple(shlex.split(given.engine_command)) if given.engine_command else None,
        shapes=given.shapes,
        dropped=dropped,
        controller=_controller(given),
    )


def engine_environment(environ: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """What of a pod's environment its engine gets, and the names of vLLM's that it may not have."""
    links = {name for name, value in environ.items() if _SERVICE_LINK.fullmatch(f"{name}={value}")}
    passed = {name: value for name, value in environ.items() if allowed_env(name) and name not in links}
    dropped = (name for name in environ if name.startswith("VLLM_") and name not in passed and name not in links)
    return passed, tuple(sorted(dropped))


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    words = list(argv)
    if "--" in words:
        at = words.index("--")
        return words[:at], words[at + 1 :]
    return (words, []) if words[:1] in (["--help"], ["-h"], ["--version"]) else ([], words)


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    def variable(name: str, otherwise: str | None = None) -> str | None:
        return environ.get(name) or otherwise

    parser = argparse.ArgumentParser(
        prog="pilotlight-engine",
        usage="pilotlight-engine [OPTIONS --] [MODEL] [VLLM OPTIONS]",
        description="Run one vLLM engine in its own pod: prove its model, start it fast, admit it once it answers.",
        epilog="MODEL and VLLM OPTIONS are those of `vllm serve`; without a model it is /mnt/models. SIGTERM drains:"
        " readiness (/pilotlight/ready) turns 503, running answers end. Standard output: stages and starts as JSON"
        " lines; standard error: the engine's log. Exit codes: 0 stopped as asked, 1 the engine did not start or died,"
        " 2 something given is wrong.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=version("pilotlight"))
    add = parser.add_argument
    add("--listen", metavar="ADDRESS:PORT", default=variable("PILOTLIGHT_LISTEN"),
        help=f"where the engine answers (PILOTLIGHT_LISTEN; 0.0.0.0:{PORT})")  # fmt: skip
    add("--service", metavar="NAMESPACE/NAME", default=variable("PILOTLIGHT_SERVICE"),
        help="what records call it (PILOTLIGHT_SERVICE; the first served name of that form)")  # fmt: skip
    add("--root", metavar="DIR", type=Path, default=variable("PILOTLIGHT_ROOT", str(ROOT)),
        help=f"caches and logs, this pod's alone (PILOTLIGHT_ROOT; {ROOT})")  # fmt: skip
    add("--store", metavar="URL", action="append",
        help="take compiled code from there; repeatable (PILOTLIGHT_STORES, split at spaces)")  # fmt: skip
    add("--publish-to", metavar="URL", default=variable("PILOTLIGHT_PUBLISH_TO"),
        help="put compiled code there (PILOTLIGHT_PUBLISH_TO)")  # fmt: skip
    add("--trust", metavar="FILE", type=Path, default=variable("PILOTLIGHT_TRUST"),
        help=f"whose compiled code is taken (PILOTLIGHT_TRUST; {TRUST} if it is there)")  # fmt: skip
    add("--signing-key", metavar="FILE", type=Path, default=variable("PILOTLIGHT_SIGNING_KEY"),
        help="signs what is published (PILOTLIGHT_SIGNING_KEY; a new one of this pod, which nobody knows)")  # fmt: skip
    add("--no-fork", dest="fork", action="store_false", default=not variable("PILOTLIGHT_NO_FORK"),
        help="spawn the engine, which imports anew (PILOTLIGHT_NO_FORK=1)")  # fmt: skip
    add("--shapes", action="store_true", default=bool(variable("PILOTLIGHT_SHAPES")),
        help="capture by what it computed before; where --root outlives the pod (PILOTLIGHT_SHAPES=1)")  # fmt: skip
    add("--platform", choices=("auto", "cpu", "cuda"), default=variable("PILOTLIGHT_PLATFORM", "auto"),
        help="auto: cuda where there is a driver (PILOTLIGHT_PLATFORM)")  # fmt: skip
    add("--allow-pickle", metavar="PATTERN", action="append",
        help="pickled weight files that may be read, though that can run code: 'pytorch_model*.bin'; repeatable"
        " (PILOTLIGHT_ALLOW_PICKLE, split at spaces)")  # fmt: skip
    add("--golden", metavar="FILE", type=Path, default=variable("PILOTLIGHT_GOLDEN"),
        help="the prompt that must be answered, as JSON: prompt, max_tokens, tokens (PILOTLIGHT_GOLDEN)")  # fmt: skip
    add("--start-timeout-s", metavar="S", type=float, default=variable("PILOTLIGHT_START_TIMEOUT_S", str(START_S)),
        help=f"the longest start (PILOTLIGHT_START_TIMEOUT_S; {START_S:.0f})")  # fmt: skip
    add("--drain-s", metavar="S", type=float, default=variable("PILOTLIGHT_DRAIN_S", str(DRAIN_S)),
        help=f"how long running answers may take to end (PILOTLIGHT_DRAIN_S; {DRAIN_S:.0f})")  # fmt: skip
    add("--let-go-s", metavar="S", type=float, default=variable("PILOTLIGHT_LET_GO_S", str(LET_GO_S)),
        help=f"how long requests are still taken after SIGTERM (PILOTLIGHT_LET_GO_S; {LET_GO_S:.0f})")  # fmt: skip
    add("--controller", metavar="URL", default=variable("PILOTLIGHT_CONTROLLER_URL"),
        help="tell this controller of starts (PILOTLIGHT_CONTROLLER_URL; nobody)")  # fmt: skip
    add("--controller-token", metavar="FILE", type=Path, default=variable("PILOTLIGHT_CONTROLLER_TOKEN", str(TOKEN)),
        help=f"by this token, read at each report (PILOTLIGHT_CONTROLLER_TOKEN; {TOKEN})")  # fmt: skip
    add("--controller-ca", metavar="FILE", type=Path, default=variable("PILOTLIGHT_CONTROLLER_CA"),
        help="who vouches for it (PILOTLIGHT_CONTROLLER_CA; ca.crt beside the token, or the machine's)")  # fmt: skip
    add("--engine-command", help=argparse.SUPPRESS)
    return parser


def _listen(text: str | None, words: Words) -> Listen:
    """Ours over vLLM's `--host` and `--port`."""
    if text is None:
        return Listen(words.address or "0.0.0.0", words.port or PORT)  # noqa: S104  (a pod's own address; the gate is in front)
    address, colon, port = text.rpartition(":")
    if not colon or not address or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"--listen {text!r} is no ADDRESS:PORT: write 0.0.0.0:{PORT} or [::]:{PORT}")
    return Listen(address.removeprefix("[").removesuffix("]"), int(port))


def _controller(given: argparse.Namespace) -> Controller | None:
    if given.controller is None:
        return None
    return Controller(given.controller, given.controller_token, given.controller_ca)


def _platform(choice: str) -> Literal["cpu", "cuda"]:
    """The driver's own tool is put into a container together with its GPUs."""
    return "cuda" if choice == "cuda" or (choice == "auto" and shutil.which("nvidia-smi")) else "cpu"


def _golden(file: Path | None) -> Golden:
    if file is None:
        return Golden()
    try:
        return Golden.model_validate_json(file.read_bytes())
    except OSError as error:
        raise ValueError(f"--golden {file} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"--golden {file}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
