import os
import socket
from pathlib import Path

import pytest

from runtime.contract import EngineSpec, StartKind
from runtime.engine.argv import Tracing, allowed_env, cache_kind, command_line, environment, import_environment
from runtime.engine.cache_kind import remember_compiled
from runtime.engine.dirs import EngineDirs

TRACING = Tracing("http://127.0.0.1:9/v1/traces", "authorization=Bearer%20x", "00-aa-bb-01")
DIRS = EngineDirs(cache=Path("/c/cache"), log=Path("/c/log"), run=Path("/c/run"))


def spec(**changes: object) -> EngineSpec:
    base = EngineSpec(service="team/chat", served_names=("team/chat", "chat"), model="/models/chat")
    return base.model_copy(update=changes)


def test_the_whole_command_line() -> None:
    argv = command_line(spec(args=("--max-model-len", "512"), drain_timeout_s=60.0), 8123, TRACING, ("engine",))
    assert argv == (
        # By its link in the working directory: the path enters the key of the compile cache.
        *("engine", "serve", "model", "--host", "127.0.0.1", "--port", "8123"),
        *("--served-model-name", "team/chat", "chat"),
        *("--otlp-traces-endpoint", "http://127.0.0.1:9/v1/traces"),
        *("--shutdown-timeout", "60"),
        *("--disable-access-log-for-endpoints", "/health,/metrics,/v1/models,/pilotlight/ready"),
        *("--allowed-media-domains", "none.invalid"),
        *("--max-model-len", "512"),
        *("--middleware", "runtime.ready.gate_mount.MountedGate"),
    )


def test_an_engine_in_a_pod_of_its_own_listens_at_the_pods_address() -> None:
    argv = command_line(spec(), 8080, None, ("engine",), "0.0.0.0")
    assert argv[3:7] == ("--host", "0.0.0.0", "--port", "8080")
    assert argv[-2:] == ("--middleware", "runtime.ready.gate_mount.MountedGate")


def test_a_model_that_the_engine_streams_keeps_its_url() -> None:
    assert command_line(spec(model="s3://models/chat"), 1, None)[4:6] == ("serve", "s3://models/chat")


def test_what_a_fork_server_imports_in_is_the_environment_without_what_one_start_has() -> None:
    parent = {"PATH": "/bin", "SECRET": "s"}
    whole = environment(spec(env={"VLLM_X": "1"}), DIRS, parent, 42, TRACING)
    imports = import_environment(spec(env={"VLLM_X": "1"}), parent)
    assert imports.items() < whole.items()
    other = EngineDirs(cache=Path("/d/cache"), log=Path("/d/log"), run=Path("/d/run"))
    again = environment(spec(env={"VLLM_X": "1"}), other, parent, 43, None)
    assert imports.items() < again.items()
    of_one_start = whole.keys() - imports.keys()
    assert {"VLLM_CACHE_ROOT", "TRACEPARENT", "PILOTLIGHT_PARENT_PID"} < of_one_start
    assert not [name for name in imports if whole[name] != again[name]]
    with pytest.raises(ValueError, match="PATH may not be set"):
        import_environment(spec(env={"PATH": "/"}), parent)


def test_by_default_it_runs_our_serve_without_the_working_directory_on_the_path() -> None:
    argv = command_line(spec(), 1, None)
    assert argv[1:5] == ("-P", "-m", "runtime.engine.serve", "serve")
    assert "--otlp-traces-endpoint" not in argv


@pytest.mark.parametrize(
    "arg",
    [
        *("--port", "--port=80", "--served_model_name", "--hos", "--api-key", "--ssl-keyfile=x", "--config", "-asc"),
        *("--enable-log-requests", "--enable_log_outputs", "--log-config-file=x", "--kv-events-config"),
        *("--nnodes=2", "-n", "--master-addr", "--data-parallel-address", "-dpa"),
    ],
)
def test_reserved_arguments_are_refused(arg: str) -> None:
    with pytest.raises(ValueError, match="is set by the launcher") as caught:
        command_line(spec(args=("--dtype", "auto", arg)), 1, None)
    assert repr(arg) in str(caught.value)


@pytest.mark.parametrize(
    "arg", ["--max-model-len", "--model-impl", "--dtype=auto", "--hf-overrides", "-tp", "512", "-"]
)
def test_other_arguments_pass(arg: str) -> None:
    assert arg in command_line(spec(args=(arg,)), 1, None)


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("VLLM_CPU_KVCACHE_SPACE", True),
        ("HF_TOKEN", True),
        ("AWS_ACCESS_KEY_ID", True),
        ("OMP_NUM_THREADS", True),
        ("http_proxy", True),
        ("PATH", False),
        ("PYTHONPATH", False),
        ("LD_LIBRARY_PATH", False),
        ("VLLM_SERVER_DEV_MODE", False),
        ("VLLM_API_KEY", False),
        ("VLLM_RPC_BASE_PATH", False),
        ("NCCL_SOCKET_IFNAME", False),
        ("GLOO_SOCKET_IFNAME", False),
        ("VLLM_DEBUG_LOG_API_SERVER_RESPONSE", False),
        ("VLLM_LOGGING_CONFIG_PATH", False),
        ("VLLM_CACHE_ROOT", False),
        ("TRITON_CACHE_DIR", False),
        ("TORCHINDUCTOR_CACHE_DIR", False),
        ("FLASHINFER_WORKSPACE_BASE", False),
        ("HF_MODULES_CACHE", False),
        ("TRACEPARENT", False),
        ("OTEL_EXPORTER_OTLP_HEADERS", False),
        ("PILOTLIGHT_STAGES", False),
        ("SECRET", False),
        ("", False),
    ],
)
def test_allowed_env(name: str, allowed: bool) -> None:
    assert allowed_env(name) is allowed


def test_nothing_of_the_host_leaks_into_an_engine() -> None:
    parent = {"PATH": "/bin", "LC_ALL": "C", "OPENBLAS_NUM_THREADS": "1", "AWS_SECRET_ACCESS_KEY": "s", "HF_TOKEN": "t"}
    env = environment(spec(), DIRS, parent, 42, TRACING)
    assert env == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "OPENBLAS_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_CPP_DYNAMIC_THREADS": "1",
        # Every cache of an engine lies below one root, or a bundle would not hold it.
        "VLLM_CACHE_ROOT": "/c/cache",
        "DG_JIT_CACHE_DIR": "/c/cache/deep_gemm",
        "FLASHINFER_WORKSPACE_BASE": "/c/cache/flashinfer",
        "TILELANG_CACHE_DIR": "/c/cache/tilelang",
        "TILELANG_TMP_DIR": "/c/cache/tilelang/tmp",
        "TORCHINDUCTOR_CACHE_DIR": "/c/cache/inductor_cache",
        "TRITON_CACHE_DIR": "/c/cache/triton_cache",
        "VLLM_RPC_BASE_PATH": ".",
        "VLLM_HOST_IP": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        "HF_MODULES_CACHE": "hf_modules",
        "PILOTLIGHT_STAGES": "1",
        "PILOTLIGHT_PARENT_PID": "42",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "authorization=Bearer%20x",
        "OTEL_BSP_SCHEDULE_DELAY": "500",
        "TRACEPARENT": "00-aa-bb-01",
    }


def test_the_specs_own_values_win_over_the_platforms() -> None:
    env = environment(spec(env={"VLLM_CPU_KVCACHE_SPACE": "4"}), DIRS, {}, 1, None)
    assert env["VLLM_CPU_KVCACHE_SPACE"] == "4"
    assert "TRACEPARENT" not in env


def test_a_url_is_not_offline_and_cuda_has_no_cpu_settings() -> None:
    env = environment(spec(model="s3://bucket/chat", platform="cuda"), DIRS, {}, 1, None)
    assert not {"HF_HUB_OFFLINE", "VLLM_CPU_KVCACHE_SPACE"} & set(env)


@pytest.mark.parametrize(
    ("chosen", "result"), [("", "pilotlight"), ("a,b", "a,b,pilotlight"), ("pilotlight", "pilotlight")]
)
def test_a_choice_of_plugins_keeps_ours(chosen: str, result: str) -> None:
    assert environment(spec(env={"VLLM_PLUGINS": chosen}), DIRS, {}, 1, None)["VLLM_PLUGINS"] == result


def test_a_forbidden_variable_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="LD_AUDIT may not be set"):
        environment(spec(env={"LD_AUDIT": "x"}), DIRS, dict(os.environ), 1, None)


def test_the_working_directory_is_private_and_a_killed_engines_sockets_are_removed(tmp_path: Path) -> None:
    dirs = EngineDirs(cache=tmp_path / "cache", log=tmp_path / "log", run=tmp_path / "run")
    dirs.make()
    assert dirs.run.stat().st_mode & 0o777 == 0o700
    (dirs.run / "core").write_text("kept")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(dirs.run / "left"))
    dirs.make()
    assert [path.name for path in dirs.run.iterdir()] == ["core"]


def test_cache_kind_follows_the_mark_in_the_cache(tmp_path: Path) -> None:
    dirs = EngineDirs(cache=tmp_path / "cache", log=tmp_path / "log", run=tmp_path / "run")
    assert cache_kind(dirs, spec()) is StartKind.COLD_NODE
    dirs.make()
    remember_compiled(dirs, spec())
    assert cache_kind(dirs, spec()) is StartKind.CACHED_NODE
    assert cache_kind(dirs, spec(served_names=("other",))) is StartKind.CACHED_NODE
    assert cache_kind(dirs, spec(args=("--max-model-len", "9"))) is StartKind.COLD_NODE
    remember_compiled(dirs, spec(model="/models/other"))
    assert cache_kind(dirs, spec()) is StartKind.CACHED_NODE


@pytest.mark.parametrize("text", ["", "{", "7", "{}"])
def test_an_unreadable_mark_is_none(tmp_path: Path, text: str) -> None:
    dirs = EngineDirs(cache=tmp_path, log=tmp_path / "log", run=tmp_path / "run")
    (tmp_path / "pilotlight-compiled.json").write_text(text)
    assert cache_kind(dirs, spec()) is StartKind.COLD_NODE


def test_an_engine_keeps_a_buckets_files_to_itself(tmp_path: Path) -> None:
    """By itself vLLM puts them where all engines of a user do; and what is no longer in the bucket must not stay."""
    spec = EngineSpec(service="t/s", served_names=("s",), model="s3://b/m")
    assert import_environment(spec, {})["VLLM_ASSETS_CACHE"] == "assets"
    own = spec.model_copy(update={"env": {"VLLM_ASSETS_CACHE": "/big"}})
    assert import_environment(own, {})["VLLM_ASSETS_CACHE"] == "/big"
    dirs = EngineDirs(cache=tmp_path / "c", log=tmp_path / "log", run=tmp_path / "run")
    (tmp_path / "run" / "assets" / "x").mkdir(parents=True)
    dirs.make()
    assert not (tmp_path / "run" / "assets").exists()


def test_modelexpress_may_be_told_where_its_server_is() -> None:
    assert allowed_env("MX_SERVER_ADDRESS")
    assert allowed_env("MODEL_EXPRESS_URL")
