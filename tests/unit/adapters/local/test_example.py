"""The example policy loads, names every key of the schema and states the true defaults."""

import re
from collections.abc import Iterator

import pytest
import yaml

from activator_ext.adapters.local.example import EXAMPLE_POLICY
from activator_ext.adapters.local.policy import PolicySpec
from activator_ext.adapters.local.schema import Strict, model_of
from tests.unit.adapters.local.build import RUNTIME, Files, service

COMMENTED_OUT = {"prometheus", "server", "query", "tokens"}


def keys(model: type[Strict]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield field.alias or name
        inner = model_of(field.annotation)
        if inner is not None:
            yield from keys(inner)


def test_it_loads_and_only_what_has_no_effect_yet_is_said(files: Files) -> None:
    chat = service(namespace="team-a", predictor="maxReplicas: 3\n")
    loaded = files.load(runtime=RUNTIME, a=chat, policy=EXAMPLE_POLICY)
    assert {finding.key for finding in loaded.findings} == {
        "spec.queue.sources",
        "spec.objective",
        "spec.forecast",
        "spec.parking",
    }
    assert loaded.ok
    (found,) = loaded.services
    assert [schedule.name for schedule in found.policy.schedules] == ["office", "nightly-batch"]


def test_it_loads_with_what_is_commented_out_in_place(files: Files) -> None:
    text = re.sub(r"^( *)# ((prometheus|  server|  query|tokens):.*)$", r"\1\2", EXAMPLE_POLICY, flags=re.MULTILINE)
    text = text.replace("    sources:", "    # sources:")
    assert all(re.search(rf"^ *{key}:", text, re.MULTILINE) for key in COMMENTED_OUT)
    assert files.load(runtime=RUNTIME, a=service(namespace="team-a"), policy=text).ok


def test_it_names_every_key() -> None:
    for key in keys(PolicySpec):
        assert re.search(rf"\b{key}:", EXAMPLE_POLICY), key


def test_every_key_below_spec_says_whether_it_is_optional() -> None:
    below = EXAMPLE_POLICY.partition("\nspec:\n")[2].splitlines()
    values = [line for line in below if re.match(r" *(- |# )?\w+: +\S", line) and not re.match(r" *# [A-Z]", line)]
    assert len(values) > 15
    said = re.compile(r"# (optional, default: |required|this or )")
    once = {re.sub(r"\W+", " ", line.split(":")[0]): said.search(line) for line in reversed(values)}
    assert [key for key, found in once.items() if not found and key.strip() not in ("server", "query")] == []


DEFAULTS = {
    "coldStartCost": "10m",
    "timeZone": "UTC",
    "replicas": "1",
    "prior": "2m",
    "maxTokens": "8",
    "readyRatio": "0.99",
    "window": "28d",
    "mode": "Observe",
    "level": "Auto",
    "kind": "InferenceService",
}


@pytest.mark.parametrize("key", DEFAULTS)
def test_a_stated_default_is_the_true_one(key: str) -> None:
    assert re.search(rf"\b{key}: .*# optional, default: {re.escape(DEFAULTS[key])}(\s|$)", EXAMPLE_POLICY, re.MULTILINE)
    assert str(_default(PolicySpec, key)) == DEFAULTS[key]


def _default(model: type[Strict], key: str) -> object:
    for name, field in model.model_fields.items():
        if (field.alias or name) == key:
            return field.default
        inner = model_of(field.annotation)
        if inner is not None and key in set(keys(inner)):
            return _default(inner, key)
    raise AssertionError(key)


def test_a_policy_that_says_nothing_is_the_example_s_defaults(files: Files) -> None:
    defaults = {"coldStartCost": "10m", "leadTime": {"prior": "2m"}, "golden": {"maxTokens": 8}, "schedules": []}
    spelled = {
        "apiVersion": "pilotlight.dev/v1alpha1",
        "kind": "PrewarmPolicy",
        "metadata": {"name": "default"},
        "spec": defaults,
    }
    (with_defaults,) = files.load(runtime=RUNTIME, a=service(), policy=yaml.safe_dump(spelled)).services
    (empty,) = files.load(policy=yaml.safe_dump({**spelled, "spec": {}})).services
    (absent,) = files.load(policy=b"").services
    assert with_defaults.policy == empty.policy == absent.policy
