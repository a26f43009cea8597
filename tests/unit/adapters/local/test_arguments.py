"""The container's command line: what the engine is given of it, and what is said of the rest."""

import pytest

from runtime.engine.argv import RESERVED_ARGS, refuse_reserved
from tests.unit.adapters.local.build import Files, custom

ARGS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "vllm serve, model first": ("command: [vllm, serve, /mnt/models, --dtype, float32]", ("--dtype", "float32"), ()),
    "vllm with a path": ("command: [/bin/vllm]\nargs: [serve, /mnt/models, --seed, '-1']", ("--seed", "-1"), ()),
    "the API server module": (
        "command: [python3, -m, vllm.entrypoints.openai.api_server]\nargs: [--model, /mnt/models]",
        (),
        (),
    ),
    "the image's own command": ("image: vllm/vllm-openai:v1\nargs: [--model=/mnt/models, --x]", ("--x",), ()),
    "our launcher": ("command: [pilotlight-engine]\nargs: [--dtype=float32]", ("--dtype=float32",), ()),
    "model_dir": ("command: [vllm, serve, --model_dir=/mnt/models]", (), ()),
    "model-path": ("command: [vllm, serve, --model-path, /mnt/models, --dtype=float32]", ("--dtype=float32",), ()),
    "model behind a joined flag": ("command: [vllm, serve, --dtype=float32, /mnt/models]", ("--dtype=float32",), ()),
    "several served names": (
        "command: [vllm, serve, /mnt/models, --served-model-name, a, b, --dtype=float32]",
        ("--dtype=float32",),
        ("a", "b"),
    ),
    "names of the service": (
        "command: [vllm, serve, /mnt/models, '--served-model-name={{.Name}}',"
        " '--served_model_name={{ .Namespace }}-x']",
        (),
        ("default-x",),
    ),
    "the model's directory elsewhere": (
        "command: [vllm, serve, /mnt/models, --tokenizer, /mnt/models/t,"
        " '--hf-overrides={\"a\": \"/mnt/models\"}', --x=/a/mnt/models]",
        ("--tokenizer", "MODELS/tiny/t", '--hf-overrides={"a": "MODELS/tiny"}', "--x=/a/mnt/models"),
        (),
    ),
    "flag of several values": (
        "command: [vllm, serve, /mnt/models, --lora-modules, a=/mnt/models/a, b=/b]",
        ("--lora-modules", "a=MODELS/tiny/a", "b=/b"),
        (),
    ),
    "dollars": ("command: [vllm, serve, /mnt/models, '--a=$$(B)', '--c=$D']", ("--a=$(B)", "--c=$D"), ()),
}  # fmt: skip


@pytest.mark.parametrize(("container", "args", "names"), ARGS.values(), ids=ARGS.keys())
def test_arguments(files: Files, container: str, args: tuple[str, ...], names: tuple[str, ...]) -> None:
    loaded = files.load(f=custom(container))
    assert loaded.findings == ()
    (spec,) = (s.spec for s in loaded.services)
    assert tuple(map(files.short, spec.args)) == args
    assert spec.served_names == ("default/chat", "chat", *names)
    assert files.short(spec.model) == "MODELS/tiny"


SET = "local mode ignores"
REFUSED: dict[str, tuple[str, list[str]]] = {
    "a shell": (
        "command: [/bin/sh, -c, vllm serve /mnt/models]",
        [
            "f.yaml:9: error: spec.predictor.containers[0].command[0]: local mode runs vLLM only, and no shell."
            " Write command: [vllm, serve] and the arguments as a list under args."
        ],
    ),
    "another server": (
        "command: [python3, -m, huggingfaceserver]",
        [
            "f.yaml:9: error: spec.predictor.containers[0].command[0]: local mode runs vLLM only, not 'python3'."
            " Use vllm serve, python3 -m vllm.entrypoints.openai.api_server, or no command with a vLLM image."
        ],
    ),
    "another image": (
        "image: kserve/huggingfaceserver:latest",
        [
            "f.yaml:8: error: spec.predictor.containers[0]: local mode runs vLLM only: the image"
            " 'kserve/huggingfaceserver:latest' is not known as vLLM, and there is no command."
            " Use vllm serve, python3 -m vllm.entrypoints.openai.api_server, or no command with a vLLM image."
        ],
    ),
    "two words in one": (
        "command: [vllm, serve, /mnt/models]\nargs:\n- --max-model-len 512",
        [
            "f.yaml:11: error: spec.predictor.containers[0].args[0]: the argument '--max-model-len 512' holds a space."
            " Write flag and value as two items of the list, or as --flag=value."
        ],
    ),
    "unknown template": (
        "command: [vllm, serve, /mnt/models, '--x={{.Labels.a}}']",
        [
            "f.yaml:9: error: spec.predictor.containers[0].command[3]: the template '{{.Labels.a}}' is not known here."
            " Use {{.Name}} or {{.Namespace}}, or write the text itself."
        ],
    ),
    "two models": (
        "command: [vllm, serve, /mnt/models, --model=/mnt/models/b]",
        [
            "f.yaml:9: error: spec.predictor.containers[0].command[3]: a second model, '/mnt/models/b', beside"
            " '/mnt/models'. Name one model; write flags with their values as --flag=value."
        ],
    ),
    "model without a value": (
        "command: [vllm, serve]\nargs: [--model, --dtype=float32]",
        ["f.yaml:10: error: spec.predictor.containers[0].args[0]: --model has no value. Write it as --flag=value."],
    ),
    "empty argument": (
        "command: [vllm, serve, '']",
        ["f.yaml:9: error: spec.predictor.containers[0].command[2]: the argument is empty. Remove it."],
    ),
    "a file of options": (
        "command: [vllm, serve, --config=/c.yaml]",
        [
            "f.yaml:9: error: spec.predictor.containers[0].command[2]: a file of options cannot be checked here."
            " Write its options under args."
        ],
    ),
    "an abbreviation": (
        "command: [vllm, serve, /mnt/models, --por=1]",
        [
            "f.yaml:9: error: spec.predictor.containers[0].command[3]: '--por' could be short for --port."
            " Write --port if that is meant."
        ],
    ),
    "no model named": (
        "command: [vllm, serve]",
        [
            "f.yaml:10: warning: spec.predictor.containers[0].env[0]: args name no model: in a cluster vLLM would not"
            " serve this one. Write /mnt/models as the first of args."
        ],
    ),
    "what the launcher sets": (
        "command: [vllm, serve, /mnt/models]\nargs:\n- --host=0.0.0.0\n- --port\n- '80'\n- --otlp-traces-endpoint\n"
        "- x\n- --shutdown-timeout=3\n- --uvicorn-log-level=error\n- --api-key\n- a\n- b",
        [
            f"f.yaml:11: warning: spec.predictor.containers[0].args[0]: {SET} --host."
            " Nothing to do: engines listen on loopback, where the launcher puts them.",
            f"f.yaml:12: warning: spec.predictor.containers[0].args[1]: {SET} --port."
            " Nothing to do: the launcher chooses it.",
            f"f.yaml:14: warning: spec.predictor.containers[0].args[3]: {SET} --otlp-traces-endpoint."
            " Nothing to do: the launcher reads the start's spans there.",
            f"f.yaml:16: warning: spec.predictor.containers[0].args[5]: {SET} --shutdown-timeout."
            " Nothing to do: the launcher sets it to the drain.",
            f"f.yaml:17: warning: spec.predictor.containers[0].args[6]: {SET} --uvicorn-log-level."
            " Nothing to do: the launcher reads these lines.",
            f"f.yaml:18: warning: spec.predictor.containers[0].args[7]: {SET} --api-key."
            " Nothing to do: the engine answers the portal only, which has no key for it.",
        ],
    ),
    "a reference to nothing": (
        "command: [vllm, serve, /mnt/models, '--x=$(NOTHING)']",
        [
            "f.yaml:9: warning: spec.predictor.containers[0].command[3]: $(NOTHING) has no value here."
            " Give NOTHING a value under env; it is passed on as it stands."
        ],
    ),
    "a GPU": (
        "command: [vllm, serve, /mnt/models]\nresources:\n  limits: {nvidia.com/gpu: 1, memory: 1Gi}",
        [
            "f.yaml:11: warning: spec.predictor.containers[0].resources.limits.nvidia.com/gpu: a GPU is asked for, and"
            " the engine will run on the CPU. Nothing to do without a GPU; with one, start with --platform cuda."
        ],
    ),
}


@pytest.mark.parametrize(("container", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_said_of_the_command_line(files: Files, container: str, expected: list[str]) -> None:
    loaded = files.load(f=custom(container))
    assert [files.short(str(finding)) for finding in loaded.findings] == expected
    assert len(loaded.services) == (0 if ": error: " in expected[0] else 1)


@pytest.mark.parametrize("flag", [*sorted(RESERVED_ARGS), "-asc", "--api_key", "--hos"])
def test_no_argument_that_the_launcher_refuses_comes_through(files: Files, flag: str) -> None:
    for written in ([f"{flag}=/mnt/models"], [flag, "/mnt/models"]):
        loaded = files.load(f=custom(f"command: [pilotlight-engine, {', '.join(written)}, --dtype=float32]"))
        for found in loaded.services:
            refuse_reserved(found.spec.args)
            assert found.spec.args == ("--dtype=float32",)
        assert loaded.services or not loaded.ok
