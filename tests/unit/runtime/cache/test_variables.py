"""Environment variables: those that change compiled code count, credentials never."""

import pytest

from runtime.cache.compile_inputs import compile_inputs
from runtime.cache.variables import WITHOUT_EFFECT, freezes_weights, variable_inputs

TABLE = compile_inputs()


@pytest.mark.parametrize(
    "name",
    [
        *("VLLM_PLUGINS", "VLLM_USE_AOT_COMPILE", "VLLM_CPU_OMP_THREADS_BIND", "TORCHINDUCTOR_MAX_AUTOTUNE"),
        *("TORCH_LOGS_FORMAT", "CUDA_HOME", "LD_PRELOAD", "PYTHONPATH", "OMP_NUM_THREADS", "VLLM_FROM_TOMORROW"),
    ],
)
def test_what_may_change_compiled_code_counts(name: str) -> None:
    assert variable_inputs({name: "17"}, TABLE) == {name: "17"}


@pytest.mark.parametrize(
    "name",
    [
        *("VLLM_CACHE_ROOT", "VLLM_CPU_KVCACHE_SPACE", "VLLM_LOGGING_LEVEL", "VLLM_HOST_IP", "VLLM_PORT"),
        *("VLLM_FORCE_AOT_LOAD", "VLLM_RPC_BASE_PATH", "HOSTNAME_", "KMP_BLOCKTIME", "MKL_NUM_THREADS"),
        *("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "RUNAI_STREAMER_CONCURRENCY", "HF_HOME", "PATH"),
        *("TRITON_CACHE_DIR", "DG_JIT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE"),
        *("https_proxy", "HTTPS_PROXY", "TRACEPARENT", "OTEL_BSP_SCHEDULE_DELAY", "PILOTLIGHT_STAGES"),
    ],
)
def test_what_changes_nothing_compiled_is_no_input(name: str) -> None:
    known = {} if name != "HOSTNAME_" else {name: "17"}
    assert variable_inputs({name: "17"}, TABLE) == known


@pytest.mark.parametrize(
    "name",
    ["AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "VLLM_API_KEY", "MY_TOKEN", "DB_PASSWORD", "X_SECRET_Y", "some_api_key"],
)
def test_a_credential_is_never_an_input(name: str) -> None:
    assert variable_inputs({name: "hunter2"}, TABLE) == {}


def test_a_default_written_out_is_none() -> None:
    assert variable_inputs({"VLLM_PP_LAYER_PARTITION": "1,2"}, TABLE)
    for name, variable in TABLE.variables.items():
        for word in variable.unset:
            assert variable_inputs({name: word}, TABLE) == {}


def test_there_are_defaults_that_can_be_written_out() -> None:
    assert sum(bool(variable.unset) for variable in TABLE.variables.values()) > 50


@pytest.mark.parametrize("name", sorted(TABLE.variables))
def test_each_variable_of_vllm_counts_as_the_table_says(name: str) -> None:
    value = "such a value has no default"
    assert variable_inputs({name: value}, TABLE) == ({name: value} if TABLE.variables[name].counts else {})


def test_each_family_says_why() -> None:
    assert all(WITHOUT_EFFECT.values())


@pytest.mark.parametrize(
    ("environ", "arguments", "frozen"),
    [
        ({}, {}, False),
        ({"TORCHINDUCTOR_FREEZING": "1"}, {}, True),
        ({"TORCHINDUCTOR_FREEZING": "0"}, {}, False),
        ({}, {"compilation_config": '{"inductor_compile_config": {"max_autotune": true}}'}, True),
        ({}, {"compilation_config": '{"mode": 3}'}, False),
    ],
)
def test_frozen_weights_are_noticed(environ: dict[str, str], arguments: dict[str, str], frozen: bool) -> None:
    assert freezes_weights(environ, arguments) is frozen
