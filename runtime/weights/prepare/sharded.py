"""One file for each rank, in the layout that an engine holds its weights in: by vLLM itself, which is run once for it.

What `--args` say of quantization is then done once, too: the files hold what is left after it. They fit this model,
these arguments and this version of vLLM, and load by `--load-format sharded_state`.

    python -m runtime.weights.prepare.sharded   the work as JSON on stdin → nothing, or the fault as JSON on stdout
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runtime.engine.leash import PARENT_ENV, leash_to_starter
from runtime.weights.examine import DTYPES, served, stored_dtypes
from runtime.weights.finding import gib
from runtime.weights.here import ranks_of
from runtime.weights.prepare.run import (
    Prepared,
    PrepareError,
    copy_others,
    drafted,
    finish,
    room_for,
    whole,
)
from runtime.weights.safetensors import BITS

TIMEOUT_S = 3600.0
LEAST_PLAIN, LEAST_QUANTIZED = 0.9, 0.2
"""Of the weights' bytes, how much must be left: a tied matrix is saved once, four bits are a quarter of sixteen."""

KV_CACHE_GIB = "1"
"""On the CPU vLLM would else take nearly all memory for it, and refuse where others use some."""

_OURS = {"VLLM_PLUGINS": "", "VLLM_HOST_IP": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
"""No plugin of vLLM has a hand in it, and its processes speak on loopback only."""

_EXCEPTION = re.compile(r"\b[A-Z]\w*(?:Error|Exception): .+")
_ECHO = re.compile(r"initialization failed|EngineDeadError|cancelled")


def shard(
    source: Path,
    out: Path,
    *,
    ranks: int,
    dtype: str | None,
    args: tuple[str, ...],
    shard_bytes: int,
    tell: Callable[[str], None],
) -> Prepared:
    """Write `source`, as `ranks` ranks hold it, to `out`, which must not exist. Raises PrepareError, Fault."""
    weights = whole(source)
    room_for(out.parent, weights)
    with drafted(out) as draft:
        tell(f"running vLLM once with {ranks} ranks")
        work = {
            "model": str(source),
            "out": str(draft),
            "args": [f"--tensor-parallel-size={ranks}", *(() if dtype is None else (f"--dtype={dtype}",)), *args],
            "shard_bytes": shard_bytes,
        }
        _run(work)
        found = ranks_of(draft)
        if found != ranks:
            raise PrepareError(f"vLLM wrote the files of {found} ranks instead of {ranks}: this layout cannot be saved")
        refuse_loss(source, weights, draft, dtype, args)
        copy_others(source, draft, weights)
        tell("writing digests")
        return finish(draft, out, {"tensor_parallel": ranks, "dtype": dtype or "auto", "args": list(args)})


def refuse_loss(source: Path, weights: tuple[Path, ...], draft: Path, dtype: str | None, args: tuple[str, ...]) -> None:
    """Raise PrepareError where vLLM saved less than the weights.

    A platform that packs them for its own kernels (vLLM's CPU backend does) keeps nothing that could be saved, and
    the files that it writes nevertheless would load as a model of random weights.
    """
    stored = stored_dtypes(weights)
    wanted = DTYPES.get(served(source, dtype) or "")
    scale = {name: BITS[wanted] / BITS[name] if wanted and name in DTYPES.values() else 1.0 for name in stored}
    need = sum(size * min(1.0, scale[name]) for name, size in stored.items())
    saved = sum(path.stat().st_size for path in draft.glob("*.safetensors"))
    quantized = any("quantization" in arg for arg in args)
    if need and saved < (LEAST_QUANTIZED if quantized else LEAST_PLAIN) * need:
        raise PrepareError(
            f"vLLM saved {gib(saved)} of {gib(need)}: on this platform it packs the weights as it loads them and "
            "cannot save them; prepare where the model is served, or without --tensor-parallel"
        )


def _run(work: dict[str, Any]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", __spec__.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"VLLM_CPU_KVCACHE_SPACE": KV_CACHE_GIB, **os.environ, **_OURS, PARENT_ENV: str(os.getpid())},
        start_new_session=True,
    )
    try:
        said, log = process.communicate(json.dumps(work), TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise PrepareError(f"vLLM did not come through within {TIMEOUT_S:g} s") from None
    finally:
        _end(process)
    if process.returncode or said.strip():
        told = json.loads(said)["error"] if said.strip() else f"it ended with code {process.returncode}"
        raise PrepareError(
            f"vLLM cannot shard {work['model']} ({shlex.join(work['args'])}): {root_cause(log) or told}: "
            "mend it by --args, which are passed on to vLLM"
        )


def root_cause(log: str) -> str | None:
    """The first exception that vLLM's processes tell of that is not an echo of another's."""
    for line in log.splitlines():
        found = _EXCEPTION.search(line)
        if found and not _ECHO.search(line):
            return found[0][:400].rstrip(". ")
    return None


def _end(process: "subprocess.Popen[str]") -> None:
    """The whole group: vLLM's workers, too."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def main() -> None:
    """The process."""
    leash_to_starter()
    work = json.load(sys.stdin)
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        try:
            _save(work)
        except Exception as error:  # vLLM may fail in any way; the caller says it in one line
            json.dump({"error": f"{type(error).__name__}: {error}"[:400]}, answers)


def _save(work: dict[str, Any]) -> None:
    from vllm import LLM  # noqa: PLC0415  (seconds of imports, in this process only)
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415

    # Only the weights are wanted: no compile, no graphs, little memory for the KV cache.
    plain = ["--enforce-eager", "--max-model-len=128", "--max-num-seqs=1"]
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    asked = EngineArgs.from_cli_args(parser.parse_args(["--model", work["model"], *plain, *work["args"]]))
    fields = {name: getattr(asked, name) for name in asked.__dataclass_fields__}
    engine: Any = LLM(**fields)
    engine.llm_engine.engine_core.save_sharded_state(path=work["out"], pattern=None, max_size=work["shard_bytes"])


if __name__ == "__main__":
    main()
