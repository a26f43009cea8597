"""Where a service's model is."""

import pytest

from tests.unit.adapters.local.build import Files, custom

PLACES = {
    "claim": ("pvc://models/tiny", "/mnt/models", "MODELS/tiny"),
    "claim, below": ("pvc://models/", "/mnt/models/tiny/", "MODELS/tiny"),
    "file": ("file:///none/such", "/mnt/models/deep", "/none/such/deep"),
}


@pytest.mark.parametrize(("storage", "model", "expected"), PLACES.values(), ids=PLACES.keys())
def test_where_the_model_is(files: Files, storage: str, model: str, expected: str) -> None:
    loaded = files.load(f=custom(f"command: [vllm, serve, {model}]", storage))
    assert loaded.ok
    assert [files.short(s.spec.model) for s in loaded.services] == [expected]


def test_a_streamed_model_is_passed_on(files: Files) -> None:
    loaded = files.load(f=custom("command: [vllm, serve, 's3://bucket/m', --load-format=runai_streamer]", ""))
    assert loaded.findings == ()
    assert [(s.spec.model, s.spec.args) for s in loaded.services] == [
        ("s3://bucket/m", ("--load-format=runai_streamer",))
    ]


ENV0, COMMAND = "spec.predictor.containers[0].env[0]", "spec.predictor.containers[0].command[2]"
SOURCES = {
    "claim without a directory": (
        "pvc://other/x", "/mnt/models",
        f"f.yaml:10: error: {ENV0}: no directory is given for the claim 'other'. Start with --volume other=DIR.",
    ),
    "out of the claim": (
        "pvc://models/../x", "/mnt/models",
        f"f.yaml:10: error: {ENV0}: the path holds '.' or '..'. Write the directory's real path.",
    ),
    "out of the claim by the model": (
        "pvc://models", "/mnt/models/../x",
        f"f.yaml:9: error: {COMMAND}: the path holds '.' or '..'. Write the directory's real path.",
    ),
    "no claim": (
        "pvc:///x", "/mnt/models", f"f.yaml:10: error: {ENV0}: '' is not a claim's name. Write pvc://CLAIM/PATH.",
    ),
    "file of a host": (
        "file://models/x", "/mnt/models",
        f"f.yaml:10: error: {ENV0}: 'file://models/x' is not an absolute path. Write three slashes: file:///DIRECTORY.",
    ),
    "the hub": (
        "hf://org/name:main", "/mnt/models",
        f"f.yaml:10: error: {ENV0}: local mode downloads nothing from the hub."
        " Run: hf download org/name --local-dir DIR; then write storageUri: file:///DIR with its absolute path.",
    ),
    "the hub, as argument": (
        "", "org/name",
        f"f.yaml:9: error: {COMMAND}: local mode downloads nothing from the hub."
        " Run: hf download org/name --local-dir DIR; then write storageUri: file:///DIR with its absolute path.",
    ),
    "object storage": (
        "s3://bucket/x", "/mnt/models",
        f"f.yaml:10: error: {ENV0}: local mode downloads nothing."
        " Remove storageUri and write --model=s3://bucket/x and --load-format=runai_streamer under args.",
    ),
    "another scheme": (
        "https://example.com/x", "/mnt/models",
        f"f.yaml:10: error: {ENV0}: 'https://example.com/x' is not served in local mode."
        " Use file:///DIRECTORY or pvc://CLAIM/PATH, or --model=s3://… under args.",
    ),
    "two models": (
        "pvc://models/tiny", "org/name",
        f"f.yaml:9: error: {COMMAND}: two models: storageUri 'pvc://models/tiny' and 'org/name'."
        " Remove storageUri, or write /mnt/models here.",
    ),
    "nothing is mounted": (
        "", "/mnt/models",
        f"f.yaml:9: error: {COMMAND}: '/mnt/models' is served, but no storageUri says what is there."
        " Write storageUri: file:///DIRECTORY.",
    ),
    "inside the image": (
        "", "/models/x",
        f"f.yaml:9: error: {COMMAND}: '/models/x' is a path inside an image, which local mode has not."
        " Write storageUri: file:///DIRECTORY and serve /mnt/models.",
    ),
    "not there yet": (
        "pvc://models/none", "/mnt/models",
        f"f.yaml:10: warning: {ENV0}: the directory 'MODELS/none' does not exist. Put the model there.",
    ),
    "no model in it": (
        "pvc://models", "/mnt/models",
        f"f.yaml:10: warning: {ENV0}: 'MODELS' holds no config.json. Put the whole model there.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("storage", "model", "expected"), SOURCES.values(), ids=SOURCES.keys())
def test_said_of_the_model(files: Files, storage: str, model: str, expected: str) -> None:
    assert files.said(f=custom(f"command: [vllm, serve, {model}]", storage)) == [expected]


def test_no_model_at_all(files: Files) -> None:
    assert files.said(f=custom("command: [vllm, serve]", "")) == [
        "f.yaml:8: error: spec.predictor.containers[0]: nothing says which model to serve."
        " Write storageUri: file:///DIRECTORY (or pvc://CLAIM/PATH) under predictor.model."
    ]
