"""vLLM's own snapshots: what is asked of it, and what keeps it from being asked. No GPU is needed for that."""

from pathlib import Path

import pytest

from runtime.engine.snapshot.cuda import create_argv, missing, restore_argv

REVISION = "0123456789abcdef0123456789abcdef01234567"


def test_create_names_the_model_its_revision_and_the_directory() -> None:
    argv = create_argv("org/model", REVISION, Path("/s"), ("--max-model-len=512",))
    assert argv[3:] == (
        *("vllm.entrypoints.cli.main", "snapshot", "create", "org/model", "--revision", REVISION),
        *("--max-model-len=512", "--snapshot-dir", "/s"),
    )


@pytest.mark.parametrize(
    ("model", "revision", "args", "why"),
    [
        ("org/model", "main", (), "40 hex digits"),
        ("/", REVISION, (), "remote model"),
        ("org/model", REVISION, ("--middleware", "a.B"), "--middleware"),
    ],
)
def test_what_vllm_would_refuse_is_told_at_once(model: str, revision: str, args: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        create_argv(model, revision, Path("/s"), args)


def test_a_restored_one_is_reached_from_this_machine_alone() -> None:
    assert restore_argv(Path("/s"), 8123)[-4:] == ("--host", "127.0.0.1", "--port", "8123")


def test_each_thing_that_is_missing_is_named(tmp_path: Path) -> None:
    told = missing({"PATH": str(tmp_path)})
    assert told is not None
    assert told.startswith("criu, cuda-checkpoint, nvidia-smi")
    for tool in ("criu", "cuda-checkpoint", "nvidia-smi"):
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    told = missing({"PATH": str(tmp_path)})
    assert told is not None
    assert "CRIU_CUDA_PLUGIN_DIR" in told
    (tmp_path / "cuda_plugin.so").touch()
    environ = {"PATH": str(tmp_path), "CRIU_CUDA_PLUGIN_DIR": str(tmp_path)}
    assert missing(environ) is None
    assert missing({**environ, "HF_TOKEN": "x"}) == "an image holds all memory of its engine: unset HF_TOKEN first"
