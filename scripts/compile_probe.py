"""Asks the installed vLLM whether another value of an argument or variable gives another compile key.

The key is that of a real `VllmConfig`, made from a command line as `vllm serve` makes it, together with the ranks that
stand in the path of an artifact. A probe that vLLM refuses on this machine proves nothing and says so.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import inspect
import io
import json
import os
import shlex
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import vllm.envs as engine_envs
from vllm.compilation.caching import aot_compile_hash_factors
from vllm.config.utils import normalize_value
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.usage.usage_lib import UsageContext
from vllm.utils.argparse_utils import FlexibleArgumentParser

from demo.models import make_model
from scripts.compile_source import VARIABLES_REACH_FURTHER

SKIP = frozenset({"help", "model_tag", "model", "config"})
"""No option of an engine, or the model itself, which the fingerprint knows by its own digest."""

_BASE = ("--max-model-len=512", "--max-num-seqs=8", "--dtype=bfloat16")
_VALUES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "tokenizer": ("{model2}",),
        "hf_config_path": ("{other}",),
        "revision": ("abc",),
        "tokenizer_revision": ("abc",),
        "code_revision": ("abc",),
        "quantization": ("fp8", "experts_int8"),
        "generation_config": ("vllm",),
        "override_generation_config": ('{"temperature": 0.5}',),
        "hf_overrides": ('{"rope_theta": 20000.0}',),
        "served_model_name": ("other",),
        "seed": ("3", "4"),
        "max_model_len": ("256", "128"),
        "max_num_seqs": ("4", "2"),
        "max_num_batched_tokens": ("1024", "2048"),
        "max_num_scheduled_tokens": ("256",),
        "load_format": ("dummy", "runai_streamer"),
        "download_dir": ("/somewhere",),
        "model_loader_extra_config": ('{"concurrency": 4}',),
        "ignore_patterns": ("*.bin",),
        "custom_histogram_buckets": ('{"iteration_tokens": [1, 2]}', '{"request_latency": [0.5, 1.0]}'),
        "allowed_local_media_path": ("{scratch}",),
        "allowed_media_domains": ("example.invalid",),
        "hf_token": ("abc",),
        "tokenizer_mode": ("slow",),
        "worker_cls": ("vllm.v1.worker.cpu_worker.CPUWorker",),
        "worker_extension_cls": ("x.Y",),
        "otlp_traces_endpoint": ("http://localhost:4317",),
        "additional_config": ('{"a": 1}',),
        "compilation_config": ('{"mode": 0}', '{"splitting_ops": []}'),
        "attention_config": ('{"use_cudnn_prefill": true}', '{"flash_attn_version": 3}'),
        "kernel_config": ('{"moe_backend": "triton"}',),
        "structured_outputs_config": ('{"backend": "guidance"}',),
        "profiler_config": ('{"profiler": "torch", "torch_profiler_dir": "{scratch}"}',),
        "kv_transfer_config": ('{"kv_connector": "ExampleConnector", "kv_role": "kv_both"}',),
        "pooler_config": ('{"pooling_type": "MEAN"}',),
        "logits_processors": ("x.Y",),
        "speculative_config": ('{"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 2}',),
        "cudagraph_capture_sizes": ("1 2 4",),
        "optimization_level": ("0", "1", "3"),
        "distributed_executor_backend": ("mp", "uni"),
        "reasoning_parser": ("qwen3",),
        "kv_cache_memory_bytes": ("536870912",),
        "block_size": ("32", "64"),
        "cpu_offload_gb": ("1",),
        "show_hidden_metrics_for_version": ("0.31",),
        "collect_detailed_traces": ("model",),
        "scheduler_cls": ("vllm.v1.core.sched.scheduler.Scheduler",),
        "tensor_parallel_size": ("2",),
        "pipeline_parallel_size": ("2",),
        "data_parallel_size": ("2",),
    }
)
"""Values to try where a type alone suggests none."""

_BY_KIND: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"int": ("2", "1", "64", "4"), "float": ("0.5", "0.7"), "json": ('{"a": 1}',), "text": ("x",), "list": ("x",)}
)
SPELLINGS = (
    *(
        "",
        "--dtype auto",
        "--dtype=auto -tp 1 -pp=1",
        "--max-logprobs=20",
        "--no-trust-remote-code",
        "--hf-overrides {}",
    ),
    *("--quantization None", "--quantization ''", "--max-num-seqs 8", "--max_num_seqs=8", "--max-num-seq 8"),
    *("--max-num-seqs 4 --max-num-seqs 08", "--max-model-len 8192", "--max-model-len 8K", "--max_model_len=8000"),
    *("--max-model-len 8k", "--max-model-len auto", "--max-model-len=-1", "-tp 2", "-tp=2", "--tensor-parallel-size 2"),
    *("-qfp8", "-q fp8", "--quantization=fp8", "-O3", "-O 3", "-O=3", "--optimization-level 3", "-O1"),
    *("-cc '{\"mode\": 3}'", "-cc.mode=3", "--compilation_config.mode 3", "--compilation-config.mode=2"),
    *('-cc \'{"debug_dump_path": "/x"}\' -cc.mode=3', "--enforce-eager", "--no-enforce-eager --enforce_eager"),
    *("--no-enforce-eager", "--cudagraph-capture-sizes 1 2", "--cudagraph_capture_sizes 1 2", "--seed 0"),
    *("--max-num-batched-tokens 2k", "--max-num-batched-tokens 2000", "--max-num-batched-tokens 1.5k", "-dp 1"),
    *("-cc.cudagraph_capture_sizes+ 1,2 -cc.cudagraph_capture_sizes+=4", "-cc.cudagraph_capture_sizes=[1,2,4]"),
    *("-cc.cudagraph_capture_sizes+=1,2,4", "--attention-config.backend FLASH_ATTN", "-ac.backend=FLASH_ATTN"),
)
"""Command lines, some of which mean the same: our reading of them is held against vLLM's."""

_MODEL_CHANGES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("config.json", {"_name_or_path": "org/other"}),
    ("config.json", {"transformers_version": "4.0.0"}),
    ("config.json", {"eos_token_id": 7}),
    ("config.json", {"rope_theta": 1234.0}),
    ("config.json", {"from_tomorrow": 1}),
    ("generation_config.json", {"temperature": 0.3}),
    ("generation_config.json", {"eos_token_id": [7]}),
    ("generation_config.json", {"max_new_tokens": 9}),
    ("tokenizer_config.json", {"chat_template": "x"}),
    ("special_tokens_map.json", {"bos_token": "x"}),
    ("tokenizer.json", {"version": "1.0"}),
    ("preprocessor_config.json", {"size": 1}),
)
"""A file of the model and what is changed in it."""

_QUICK_CHANGES = ("_name_or_path", "transformers_version", "rope_theta", "temperature")

_CHILD_S = 120
"""An argument that makes vLLM wait for something that is not here is refused after so long."""

_ENOUGH = 2
"""Accepted values that leave the key as it is, after which no more are tried; of choices all are."""

_PLAIN = frozenset(
    {"os", "environ", "get", "getenv", "int", "float", "bool", "strip", "lower", "str", "split", "upper"}
)
"""Names in a getter that look at nothing but the variable itself."""

_WORDS = ("0", "1", "", "true", "false", "True", "False", "auto", "2", "x")


def spellings() -> dict[str, dict[str, Any]]:
    """Every option of `vllm serve`: how it may be written, what kind of value it takes, its default as text."""
    engine = {field.name for field in dataclasses.fields(AsyncEngineArgs)}
    found = {}
    for action in _parser()._actions:
        if action.dest not in SKIP and action.option_strings:
            entry: dict[str, Any] = {"flags": list(action.option_strings), "kind": _kind(action)}
            if _gives_none(action):
                entry["nullable"] = True
            default = _default(action)
            if default is not None:
                entry["default"] = default
            found[action.dest] = {**entry, "front": action.dest not in engine}
    return found


def _parser() -> FlexibleArgumentParser:
    return make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))


def _kind(action: argparse.Action) -> str:
    if isinstance(action, argparse.BooleanOptionalAction):
        return "switch"
    if isinstance(action, argparse._StoreTrueAction):
        return "flag"
    base = _scalar(action)
    if action.nargs in ("+", "*"):
        return f"list-{base}"
    return f"optional-{base}" if action.nargs == "?" else base


def _scalar(action: argparse.Action) -> str:
    def gives(word: str, *kinds: type) -> bool:
        with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
            return callable(action.type) and isinstance(action.type(word), kinds)
        return False

    if action.type is None:
        return "text"
    if gives("1", int):
        return "int" if not gives("{}", dict) else "json"
    if gives("1.5", float):
        return "float" if not gives("{}", dict) else "json"
    return "json" if gives("{}", dict) or not gives("x", str) else "text"


def _gives_none(action: argparse.Action) -> bool:
    """Whether the word None means no value; where nothing is the default anyway."""
    try:
        return action.default is None and callable(action.type) and action.type("None") is None
    except Exception:
        return False


def _default(action: argparse.Action) -> str | None:
    value = getattr(action.default, "value", action.default)  # of an enum, what is written
    if isinstance(value, bool):
        return "true" if value else "false"
    if value == {} and isinstance(value, dict):
        return "{}"
    return str(value) if isinstance(value, int | float | str) and value != argparse.SUPPRESS else None


class RefusedError(Exception):
    """vLLM takes no such configuration on this machine; `str()` is the kind of its error."""


def in_child(ask: Callable[[], str]) -> str:
    """The answer of `ask` from a fork that is silent and gone afterwards. Raises RefusedError."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(ask, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    if not answer.startswith("="):
        raise RefusedError(answer.partition(":")[0] or "ended")
    return answer[1:]


def _answer(ask: Callable[[], str], writer: int) -> NoReturn:
    try:
        signal.alarm(_CHILD_S)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        answer = f"={ask()}"
    except BaseException as error:
        answer = f"{type(error).__name__}: {error}"
    os.write(writer, answer.encode()[:4000])
    os._exit(0)


class Probe:
    """Real configurations of a tiny model in `scratch`."""

    def __init__(self, scratch: Path) -> None:
        self._words = {"scratch": str(scratch)}
        for name in ("model", "model2", "other"):
            make_model(scratch / name, seed=0, size="tiny")
            self._words[name] = str(scratch / name)
        config = scratch / "other" / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"rope_theta": 5000.0}))
        self._parser = _parser()
        self._base = self.key()
        if self.key() != self._base:
            raise RuntimeError("two equal configurations have different compile keys: nothing can be learned")

    def key(self, *args: str, variables: Mapping[str, str] = MappingProxyType({})) -> str:
        """Compile key of the base command line with `args` behind it. Raises RefusedError.

        In a process of its own: some arguments leave vLLM's modules changed behind them.
        """
        return in_child(lambda: self._key(args, variables))

    def _key(self, args: tuple[str, ...], variables: Mapping[str, str], place: str = "") -> str:
        os.environ.update(variables)
        # Some name a directory, which vLLM then makes: the next one must not find it.
        os.chdir(place or tempfile.mkdtemp(dir=self._words["scratch"]))
        parsed = self._parser.parse_args([self._words["model"], *_BASE, *args])
        parsed.model = self._words["model"]
        config = AsyncEngineArgs.from_cli_args(parsed).create_engine_config(UsageContext.OPENAI_API_SERVER)
        ranks = (config.parallel_config.rank, config.parallel_config.data_parallel_index)
        return hashlib.sha256(repr((aot_compile_hash_factors(config), ranks)).encode()).hexdigest()

    def argument(self, name: str, spelling: Mapping[str, Any]) -> str:
        """`changed`, `same (values)` or `refused: why`."""
        if spelling["front"]:
            return "same (never reaches the engine's configuration)"
        same, refused = [], ""
        context = ("--enable-lora",) if "lora" in name and name != "enable_lora" else ()
        base = self.key(*context) if context else self._base
        for args in self._tries(name, spelling):
            try:
                changed = self.key(*context, *args) != base
            except RefusedError as error:
                refused = f"{' '.join(args)}: {error}"
                continue
            if changed:
                return "changed"
            same.append(" ".join(args[1:]) or args[0])
            if len(same) >= _ENOUGH and name not in _VALUES and "choices" not in spelling:
                break
        told = f"same ({', '.join(same)})" if same else f"refused ({refused})"
        return told.replace(self._words["scratch"], "SCRATCH")[:120]

    def _tries(self, name: str, spelling: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
        flags, kind = spelling["flags"], spelling["kind"]
        flag = next((text for text in flags if text.startswith("--") and not text.startswith("--no-")), flags[0])
        if kind in ("switch", "flag"):
            yield from ((text,) for text in flags if text.startswith("--"))
            return
        values = _VALUES.get(name) or _choices(self._parser, name) or _BY_KIND[kind.split("-")[-1]]
        for value in values:
            if value != spelling.get("default"):
                words = [value.replace(f"{{{k}}}", v) for k, v in self._words.items() if f"{{{k}}}" in value] or [value]
                yield (flag, *(words[0].split() if kind.startswith("list") else words[:1]))

    def spellings(self) -> dict[str, str]:
        """How vLLM's parser understands each line of SPELLINGS: equal texts, equal meanings."""
        return {line: in_child(partial(self._meaning, line)) for line in SPELLINGS}

    def _meaning(self, line: str) -> str:
        parsed = vars(self._parser.parse_args(shlex.split(line)))
        return hashlib.sha256(repr(sorted(parsed.items())).encode()).hexdigest()[:12]

    def model_files(self, *, quick: bool) -> dict[str, str]:
        """What changing a file of the model does to the key: `changed`, `same` or `refused`."""
        changes = [each for each in _MODEL_CHANGES if not quick or next(iter(each[1])) in _QUICK_CHANGES]
        return {f"{file} {next(iter(change))}": self._model_file(file, change) for file, change in changes}

    def _model_file(self, file: str, change: Mapping[str, Any]) -> str:
        path = Path(self._words["model"], file)
        before = path.read_bytes() if path.exists() else None
        path.write_text(json.dumps({**json.loads(before or "{}"), **change}))
        try:
            return "same" if self.key() == self._base else "changed"
        except RefusedError:
            return "refused"
        finally:
            if before is None:
                path.unlink()
            else:
                path.write_bytes(before)

    def surroundings(self, *, quick: bool) -> dict[str, str]:
        """What differs between two pods that are to share a key: `same`, or `changed`, which must be pinned.

        `quick`: all of it at once, and one by one only if that changes something.
        """
        places = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
        elsewhere = dict.fromkeys(places, self._words["scratch"])
        tries = {**elsewhere, "HOSTNAME": "other", "USER": "other", "POD_IP": "10.0.0.9", "CUDA_VISIBLE_DEVICES": "3"}
        if quick and self.key(variables=tries) == self._base:
            found = dict.fromkeys(tries, "same")
        else:
            found = {name: self._same(self.key(variables={name: value})) for name, value in tries.items()}
        return {**found, "working directory": self._same(in_child(self._key_elsewhere))}

    def _same(self, key: str) -> str:
        return "same" if key == self._base else "changed"

    def _key_elsewhere(self) -> str:
        return self._key((), {}, place="/")

    def environment(self, *, indirect: bool) -> dict[str, dict[str, Any]]:
        """Every variable of vLLM: `yes` if it stands in the key's factors, else what changing it did."""
        factors = engine_envs.compile_factors()
        found: dict[str, dict[str, Any]] = {}
        for name in sorted({*engine_envs.environment_variables, *factors}):
            if name in factors:
                found[name] = {"input": "yes", "unset": self._like_unset(name, factors[name])}
            elif name in VARIABLES_REACH_FURTHER:
                found[name] = {"input": "unproven"}
            elif indirect:
                found[name] = {"input": self._variable(name)}
            else:
                found[name] = {}
        return found

    def _like_unset(self, name: str, unset: object) -> list[str]:
        """The words that mean the same as not setting `name`, wherever it runs; a getter that looks about has none."""
        getter = engine_envs.environment_variables.get(name)
        if getter is None or not set(getattr(getter, "__code__", _opaque.__code__).co_names) <= _PLAIN:
            return []
        if inspect.getclosurevars(getter).nonlocals or _reads(getter) - {name}:
            return []
        words = dict.fromkeys([*_WORDS, *([str(unset)] if isinstance(unset, int | float | str) else [])])
        return [word for word in words if self._factor(name, word) == unset]

    def _factor(self, name: str, word: str) -> object:
        with _set(name, word):
            try:
                return normalize_value(engine_envs.environment_variables[name]())
            except Exception:
                return _opaque

    def _variable(self, name: str) -> str:
        """`no` if no accepted value of `name` changes the key by another way, and at least one was accepted."""
        accepted = 0
        for word in ("1", "0", "ERROR", "x"):
            with contextlib.suppress(RefusedError):
                if self.key(variables={name: word}) != self._base:
                    return "yes"
                accepted += 1
                if accepted == _ENOUGH:
                    break
        return "no" if accepted else "unproven"


def _choices(parser: FlexibleArgumentParser, name: str) -> tuple[str, ...]:
    for action in parser._actions:
        if action.dest == name and action.choices:
            return tuple(str(choice) for choice in action.choices if choice is not None)
    return ()


def _reads(getter: Callable[[], object]) -> set[str]:
    """The names of variables that stand in a getter's code."""
    texts = (text for text in getter.__code__.co_consts if isinstance(text, str))
    return {text for text in texts if text in engine_envs.environment_variables}


def _opaque() -> None:
    """Stands for a getter that cannot be read, and for a value that equals nothing."""
    json.dumps(os.name)


@contextlib.contextmanager
def _set(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
