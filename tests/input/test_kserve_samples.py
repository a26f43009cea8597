"""KServe's own manifests: each object is accepted, or refused for a true reason.

    PILOTLIGHT_KSERVE_REPO=CHECKOUT .venv/bin/pytest -m prove -s tests/input/test_kserve_samples.py

CHECKOUT: a work tree of the KServe project; nothing of it is committed here. Every YAML file of it that holds an
InferenceService or a runtime is loaded beside the project's runtimes (config/runtimes). Each error must be of a reason
below, and where another witness exists it is asked: PyYAML whether a file is YAML, KServe's CRD whether a key exists.
`-s` shows the table.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from activator_ext.adapters.local.cluster_fields import fields_of
from activator_ext.adapters.local.findings import Finding
from activator_ext.adapters.local.manifests import load

ROOT = Path(os.environ.get("PILOTLIGHT_KSERVE_REPO", "nowhere"))
KINDS = re.compile(r"^ *kind: *[\"']?(InferenceService|ServingRuntime|ClusterServingRuntime)[\"']? *$", re.MULTILINE)
STEP = re.compile(r"[^.\[\]]+|\[\d+\]")

pytestmark = [
    pytest.mark.prove,
    pytest.mark.skipif(not ROOT.is_dir(), reason="PILOTLIGHT_KSERVE_REPO names no checkout of the KServe project"),
]


def is_no_yaml(path: Path, _: Finding) -> bool:
    try:
        list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except yaml.YAMLError:
        return True
    return False


def has_the_form(path: Path, finding: Finding) -> bool:
    form = finding.key.rpartition(".")[2]
    return any(form in (document["spec"].get("predictor") or {}) for document in services(path))


def is_unknown_to_the_crd(path: Path, finding: Finding) -> bool:
    text = path.read_text(encoding="utf-8")
    plural = "inferenceservices" if re.search(r"kind: *[\"']?InferenceService\b", text) else "servingruntimes"
    schema: Any = crd(plural)
    steps = STEP.findall(finding.key)
    for step in steps[:-1]:
        schema = schema["items"] if step.startswith("[") else schema["properties"][step]
    return steps[-1] not in schema["properties"]


def yes(_: Path, __: Finding) -> bool:
    """Nobody else to ask."""
    return True


Witness = Callable[[Path, Finding], bool]
REASONS: dict[str, tuple[str, Witness]] = {
    "no InferenceService is in these files": ("accepted: runtimes alone, and nothing to serve", yes),
    "not valid YAML": ("not YAML, to PyYAML neither", is_no_yaml),
    "local mode runs vLLM only, and no server of KServe's": ("another framework's server", has_the_form),
    "the template '{{.Labels.": ("a runtime's template over labels, which local mode does not fill in", yes),
    "local mode runs vLLM only": ("a container that does not run vLLM", yes),
    "unknown key": ("a key that KServe's CRD does not know", is_unknown_to_the_crd),
    "no runtime selects the format": ("a format of no runtime in config/runtimes", yes),
    "no runtime is named": ("a runtime that is not in config/runtimes", yes),
    "local mode downloads nothing": ("a model to download", yes),
    "no directory is given for the claim": ("a volume without --volume", yes),
    "is not served in local mode": ("a storage of a cluster's own", yes),
    "nothing says which model": ("storage by key, not storageUri", yes),
    "is not read here": ("an API version of before v1beta1", yes),
    "is a path inside an image": ("a model inside an image", yes),
    "KServe takes no model beside a container named": ("two predictors in one, which its webhook refuses", yes),
    "no container is named kserve-container": ("several containers, none of the engine's name", yes),
}


def crd(plural: str) -> Any:
    text = (ROOT / "config" / "crd" / "full" / f"serving.kserve.io_{plural}.yaml").read_text(encoding="utf-8")
    version = yaml.safe_load(text)["spec"]["versions"][-1]
    return version["schema"]["openAPIV3Schema"]


def services(path: Path) -> Iterator[Any]:
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        if isinstance(document, dict) and document.get("kind") == "InferenceService":
            yield document


def samples() -> list[Path]:
    """Every file with an object of ours, but the CRDs themselves and the copies of earlier releases."""
    found = sorted([*ROOT.rglob("*.yaml"), *ROOT.rglob("*.yml")])
    apart = {"crd", "crds", "install", "templates"}
    return [p for p in found if not apart & set(p.relative_to(ROOT).parts) and KINDS.search(p.read_text("utf-8"))]


def runtimes(beside: Path) -> list[Path]:
    """The project's own, for a file with a service; a file of runtimes alone may hold the same ones."""
    has_service = re.search(r"kind: *[\"']?InferenceService\b", beside.read_text("utf-8"))
    return sorted((ROOT / "config" / "runtimes").glob("kserve-*.yaml")) if has_service else []


def reason(path: Path, finding: Finding) -> str:
    """The reason's name. Raises AssertionError if it is none of the table, or its witness says otherwise."""
    for start, (name, witness) in REASONS.items():
        if start in finding.message:
            assert witness(path, finding), f"not true: {finding}"
            return name
    raise AssertionError(f"no reason of the table: {finding}")


def test_each_sample_is_accepted_or_refused_for_a_true_reason() -> None:
    table: Counter[str] = Counter()
    for path in samples():
        found = load([path, *runtimes(path)], {}).findings
        errors = [finding for finding in found if finding.severity == "error"]
        for name in {reason(path, error) for error in errors} or {"accepted"}:
            table[name] += 1
    print("\n" + "\n".join(f"{count:5} {name}" for name, count in table.most_common()))
    assert sum(table.values()) > 50


def test_kserve_s_runtime_for_vllm_serves_here(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    service = tmp_path / "chat.yaml"
    service.write_text(
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: chat}\nspec:\n"
        f"  predictor:\n    model: {{modelFormat: {{name: vLLM}}, storageUri: 'file://{tmp_path}'}}\n"
    )
    loaded = load([service, ROOT / "config" / "runtimes" / "kserve-vllmserver.yaml"], {})
    assert [str(finding) for finding in loaded.findings if finding.severity == "error"] == []
    assert [str(found.id) for found in loaded.services] == ["default/chat"]


@pytest.mark.parametrize(
    ("plural", "kind"),
    [("inferenceservices", "V1beta1InferenceService"), ("servingruntimes", "V1alpha1ServingRuntime")],
)
def test_our_table_knows_every_key_of_the_crd(plural: str, kind: str) -> None:
    def missing(schema: Any, kind: str, path: str) -> Iterator[str]:
        if kind.startswith("["):
            yield from missing(schema.get("items", {}), kind[1:-1], f"{path}[]")
            return
        known = fields_of(kind)
        for key, inner in schema.get("properties", {}).items() if known else ():
            if key not in known:
                yield f"{path}.{key}"
            elif key != "status":
                yield from missing(inner, known[key], f"{path}.{key}")

    assert list(missing(crd(plural)["properties"]["spec"], fields_of(kind)["spec"], "spec")) == []
