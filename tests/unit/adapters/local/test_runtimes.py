"""Which runtime serves a model: KServe's rules."""

import pytest

from tests.unit.adapters.local.build import Files, service


def runtime(name: str, formats: str, *, namespace: str | None = None, more: str = "") -> str:
    """A runtime whose name is the engine's dtype, to be told apart by."""
    kind = "ServingRuntime" if namespace else "ClusterServingRuntime"
    place = f", namespace: {namespace}" if namespace else ""
    return (
        f"apiVersion: serving.kserve.io/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}{place}}}\n"
        f"spec:\n  supportedModelFormats: [{formats}]\n{more}"
        f"  containers:\n    - name: kserve-container\n      command: [vllm, serve, /mnt/models, --dtype={name}]\n"
    )


AUTO = "{name: huggingface, autoSelect: true}"
PLAIN = "{name: huggingface}"
CHOSEN = {
    "the only one": ([runtime("a", AUTO)], "", "a"),
    "not without autoSelect": ([runtime("a", PLAIN), runtime("b", AUTO)], "", "b"),
    "the first by name": ([runtime("b", AUTO), runtime("a", AUTO)], "", "a"),
    "the higher priority": (
        [runtime("a", "{name: huggingface, autoSelect: true, priority: 1}"),
         runtime("b", "{name: huggingface, autoSelect: true, priority: 2}")],
        "", "b",
    ),
    "a priority before none": (
        [runtime("a", AUTO), runtime("b", "{name: huggingface, autoSelect: true, priority: 1}")], "", "b",
    ),
    "the namespace's own first": (
        [runtime("a", "{name: huggingface, autoSelect: true, priority: 9}"), runtime("b", AUTO, namespace="default")],
        "", "b",
    ),
    "not another namespace's": ([runtime("a", AUTO, namespace="other"), runtime("b", AUTO)], "", "b"),
    "not a disabled one": ([runtime("a", AUTO, more="  disabled: true\n"), runtime("b", AUTO)], "", "b"),
    "another format": ([runtime("a", "{name: onnx, autoSelect: true}"), runtime("b", AUTO)], "", "b"),
    "by name": ([runtime("a", AUTO), runtime("b", PLAIN)], "runtime: b\n", "b"),
    "by name, the namespace's own first": (
        [runtime("b", "{name: onnx}"), runtime("b", PLAIN, namespace="default")], "runtime: b\n", "b",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("runtimes", "model", "expected"), CHOSEN.values(), ids=CHOSEN.keys())
def test_chosen(files: Files, runtimes: list[str], model: str, expected: str) -> None:
    loaded = files.load(runtimes="---\n".join(runtimes), f=service(model=model))
    assert [s.spec.args for s in loaded.services] == [(f"--dtype={expected}",)]
    assert loaded.findings == ()


VERSIONS = {
    "none wanted": (None, '"1"', True),
    "the same": ('"1"', '"1"', True),
    "another": ('"2"', '"1"', False),
    "wanted and none stated": ('"1"', None, False),
}


@pytest.mark.parametrize(("wanted", "stated", "fits"), VERSIONS.values(), ids=VERSIONS.keys())
def test_versions(files: Files, wanted: str | None, stated: str | None, fits: bool) -> None:
    supported = AUTO if stated is None else AUTO.replace("}", f", version: {stated}}}")
    text = service() if wanted is None else service().replace("{name: hugg", f"{{version: {wanted}, name: hugg")
    assert files.load(r=runtime("a", supported), f=text).ok is fits


KEY = "spec.predictor.model"
REFUSED = {
    "no runtime at all": (
        "", "",
        f"f.yaml:8: error: {KEY}.modelFormat: no runtime selects the format 'huggingface' automatically."
        " Write runtime: NAME under model. No runtime is in these files:"
        " add a ServingRuntime or ClusterServingRuntime.",
    ),
    "none automatic": (
        runtime("a", PLAIN) + "---\n" + runtime("b", PLAIN, namespace="default"), "",
        f"f.yaml:8: error: {KEY}.modelFormat: no runtime selects the format 'huggingface' automatically."
        " Write runtime: NAME under model. Known here: b, a.",
    ),
    "name unknown": (
        runtime("vllm-cpu", AUTO), "runtime: vllm-cup\n",
        f"f.yaml:10: error: {KEY}.runtime: no runtime is named 'vllm-cup'. Did you mean vllm-cpu?",
    ),
    "name unknown, nothing like it": (
        runtime("vllm-cpu", AUTO), "runtime: triton\n",
        f"f.yaml:10: error: {KEY}.runtime: no runtime is named 'triton'. Known here: vllm-cpu.",
    ),
    "named and disabled": (
        runtime("a", AUTO, more="  disabled: true\n"), "runtime: a\n",
        f"f.yaml:10: error: {KEY}.runtime: the runtime 'a' is disabled. Choose another, or remove disabled there.",
    ),
    "named, another format": (
        runtime("a", "{name: onnx}, {name: pmml}"), "runtime: a\n",
        f"f.yaml:10: error: {KEY}.runtime: the runtime 'a' does not serve the format 'huggingface'."
        " Its formats (a version given must be its own): onnx, pmml.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("runtimes", "model", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(files: Files, runtimes: str, model: str, expected: str) -> None:
    assert files.said(runtimes=runtimes, f=service(model=model)) == [expected]
