"""Kinds beside ours, lists, duplicates, files and directories."""

import os
from pathlib import Path
from textwrap import indent

import pytest

from activator_ext.adapters.local.manifests import load
from tests.unit.adapters.local.build import RUNTIME, Files, policy, service

OTHERS = {
    "core": ("v1", "ConfigMap"),
    "KServe": ("serving.kserve.io/v1alpha2", "LLMInferenceService"),
}


@pytest.mark.parametrize(("version", "kind"), OTHERS.values(), ids=OTHERS.keys())
def test_another_kind_is_ignored_with_a_warning(files: Files, version: str, kind: str) -> None:
    loaded = files.load(runtime=RUNTIME, f=f"apiVersion: {version}\nkind: {kind}\n---\n{service()}")
    said = [files.short(str(finding)) for finding in loaded.findings]
    assert said == [f"f.yaml:2: warning: kind: local mode ignores '{kind}'. It takes effect in a cluster."]
    assert loaded.ok
    assert len(loaded.services) == 1


HOLD = """\
apiVersion: pilotlight.dev/v1alpha1
kind: PrewarmHold
metadata: {name: demo}
spec:
  serviceRef: {name: chat}
"""
HOLDS = {
    "a sound one": (
        "  for: 1h\n",
        [
            "warning: kind: local mode ignores 'PrewarmHold'."
            " It takes effect in a cluster; here write `pilotlight prewarm`."
        ],
    ),
    "without an end": (
        "",
        ["error: spec: set exactly one of until and for. A hold always ends: write until or for."],
    ),
    "too long": (
        "  for: 32d\n",
        ["error: spec.for: the hold is longer than 31 days. Write an earlier end, or a schedule in a policy."],
    ),
    "an instant without a zone": (
        "  until: 2026-12-01T09:00:00\n",
        ["error: spec.until: '2026-12-01T09:00:00' is not an instant. Write one like 2026-12-01T09:00:00+01:00."],
    ),
    "on no calendar": (
        "  until: 2027-02-29T09:00:00Z\n",
        ["error: spec.until: '2027-02-29T09:00:00Z' is on no calendar. Write one like 2026-12-01T09:00:00+01:00."],
    ),
    "the end first": (
        "  readyBy: 2026-12-01T09:00:00+01:00\n  until: 2026-12-01T08:00:00Z\n",
        ["error: spec.until: until is not after readyBy. Write a later until."],
    ),
    "a typing error": ("  for: 1h\n  untill: x\n", ["error: spec.untill: unknown key. Did you mean until?"]),
}


@pytest.mark.parametrize(("lines", "expected"), HOLDS.values(), ids=HOLDS.keys())
def test_a_hold_is_checked_though_only_a_cluster_acts_on_it(files: Files, lines: str, expected: list[str]) -> None:
    said = files.said(runtime=RUNTIME, service=service(), f=f"{HOLD}{lines}")
    assert [line.split(": ", 1)[1] for line in said] == expected


def test_items_of_a_list_are_objects_with_their_own_lines(files: Files) -> None:
    item = indent(service(predictor="zzz: 1\n"), "    ").replace("    apiVersion", "  - apiVersion", 1)
    said = files.said(runtime=RUNTIME, f=f"apiVersion: v1\nkind: List\nitems:\n{item}")
    assert [line.partition(". ")[0] for line in said] == ["f.yaml:10: error: spec.predictor.zzz: unknown key"]


def test_a_service_that_stands_twice_is_an_error_at_both_places(files: Files) -> None:
    assert files.said(runtime=RUNTIME, a=service(), b=f"---\n{service()}") == [
        "a.yaml:3: error: metadata.name: InferenceService 'default/chat' stands twice, also at b.yaml:4."
        " Rename or remove one of them.",
        "b.yaml:4: error: metadata.name: InferenceService 'default/chat' stands twice, also at a.yaml:3."
        " Rename or remove one of them.",
    ]


def test_a_cluster_runtime_has_no_namespace_to_tell_it_apart(files: Files) -> None:
    said = files.said(a=RUNTIME, b=RUNTIME.replace("name: vllm", "name: vllm\n  namespace: x", 1), f=service())
    assert said == [
        "a.yaml:4: error: metadata.name: ClusterServingRuntime 'vllm' stands twice, also at b.yaml:4."
        " Rename or remove one of them.",
        "b.yaml:4: error: metadata.name: ClusterServingRuntime 'vllm' stands twice, also at a.yaml:4."
        " Rename or remove one of them.",
    ]


def test_the_same_names_in_two_namespaces_are_two_services(files: Files) -> None:
    loaded = files.load(runtime=RUNTIME, a=service(), b=service(namespace="team-a"))
    assert loaded.ok
    assert [str(s.id) for s in loaded.services] == ["default/chat", "team-a/chat"]


def test_no_service_at_all_is_an_error_so_that_a_half_written_file_empties_nothing(files: Files) -> None:
    loaded = files.load(f=b"")
    assert [str(f) for f in loaded.findings] == [
        f"{files.yaml}:1: error: no InferenceService is in these files. Add one, or name more files."
    ]
    assert not loaded.ok
    assert not load([], {}).ok


def test_a_broken_runtime_or_service_causes_no_errors_elsewhere(files: Files) -> None:
    said = files.said(
        a=RUNTIME.replace("supportedModelFormats", "supportedModelFormat"), b=service("bad", predictor="zzz: 1\n"),
        c=service(model="runtime: vllm\n"), d=policy(ref="bad"),
    )  # fmt: skip
    assert [line.partition(": error: ")[0] for line in said] == ["a.yaml:6", "b.yaml:7"]


def test_directories_give_their_yaml_files_sorted_and_each_file_counts_once(files: Files) -> None:
    files.write(runtime=RUNTIME, b=service("b"))
    (files.yaml / "a.yml").write_text(service("a"))
    (files.yaml / "notes.txt").write_text("not: [yaml")
    (files.yaml / ".hidden.yaml").write_text("not: [yaml")
    (files.yaml / "deeper").mkdir()
    (files.yaml / "deeper" / "c.yaml").write_text("not: [yaml")
    loaded = load([files.yaml / "b.yaml", files.yaml], {"models": files.models})
    assert loaded.findings == ()
    assert [(s.id.name, Path(s.file).name) for s in loaded.services] == [("a", "a.yml"), ("b", "b.yaml")]


def test_paths_that_are_no_files(files: Files) -> None:
    files.write(runtime=RUNTIME, f=service())
    (files.yaml / "gone.yaml").symlink_to(files.yaml / "nothing")
    os.mkfifo(files.yaml / "pipe.yaml")
    empty = files.models / "tiny"
    loaded = load([files.yaml, files.yaml / "none", empty], {"models": files.models})
    assert sorted(files.short(str(finding)) for finding in loaded.findings) == [
        "MODELS/tiny:1: error: the directory holds no *.yaml or *.yml. Name another one.",
        "gone.yaml:1: error: it is a link to nothing, which does not exist. Correct or remove the link.",
        "none:1: error: there is no such file or directory. Check the path.",
        "pipe.yaml:1: error: it is a pipe, not a file. Remove it from the directory, or check its link.",
    ]
    assert len(loaded.services) == 1


def test_a_message_cannot_draw_on_the_terminal(files: Files) -> None:
    (said,) = files.said(runtime=RUNTIME, f=service(predictor='"\\e[2J\\n": 1\n'))
    assert said.startswith("f.yaml:7: error: spec.predictor.\\x1b[2J\\n: unknown key: it holds U+001B, U+000A. ")


LISTS = {
    "no items": (
        "kind: List\n",
        "f.yaml:1: error: items: a list has no items. Write the objects under items, each with -.",
    ),
    "an item that is none": (
        "kind: List\nitems: [3]\n",
        "f.yaml:3: error: items[0]: the item is not an object."
        " Write apiVersion, kind, metadata and spec under it, or remove it.",
    ),
    "a list inside": (
        "kind: InferenceServiceList\nitems:\n- {apiVersion: v1, kind: List, items: []}\n",
        "f.yaml:4: error: kind: a list stands inside a list. Write its objects into the outer one.",
    ),
}


@pytest.mark.parametrize(("text", "expected"), LISTS.values(), ids=LISTS.keys())
def test_lists_that_hold_no_objects(files: Files, text: str, expected: str) -> None:
    assert files.said(runtime=RUNTIME, a=service(), f=f"apiVersion: v1\n{text}") == [expected]


def test_a_kustomization_is_built_by_others(files: Files) -> None:
    text = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n"
    assert files.said(runtime=RUNTIME, a=service(), f=text) == [
        "f.yaml:2: warning: kind: local mode does not build kustomizations."
        " Give what it builds: kustomize build DIR > FILE."
    ]
