"""The CRDs are those of the models, and no rule refuses what a model takes."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, BeforeValidator

from activator_ext.adapters.local.documents import Document
from activator_ext.adapters.local.durations import seconds
from activator_ext.adapters.local.findings import Findings
from activator_ext.adapters.local.hold import LONGEST, HoldSpec, PrewarmHold
from activator_ext.adapters.local.policy import PrewarmPolicy
from activator_ext.adapters.local.schema import read
from activator_ext.app.views import HoldRequest
from activator_ext.core import schedule as core_schedule
from activator_ext.core.model import Schedule
from scripts import crd_rules, crds, objects
from scripts.crd_rules import RULES

MODELS: dict[str, type[BaseModel]] = {"PrewarmPolicy": PrewarmPolicy, "PrewarmHold": PrewarmHold}
OTHERWISE = {("PrewarmPolicy", "spec"): "schedules are a list keyed by name: the API server refuses a name twice"}
"""Validators that need no rule."""


def test_the_files_are_what_the_script_writes() -> None:
    written = {path.name: path.read_text() for path in crds.DIRECTORY.iterdir()}

    assert written == crds.files(), "manifests/crds is old: run `python -m scripts.crds`"


def validated(kind: str, model: type[BaseModel], path: str) -> Iterator[tuple[str, str]]:
    """Every path at which Python code of ours judges a value."""
    if model.__pydantic_decorators__.model_validators and path:
        yield kind, path
    for name, field in model.model_fields.items():
        here = f"{path}.{field.alias or name}".lstrip(".")
        if here == "metadata":
            continue
        judged = any(isinstance(each, AfterValidator | BeforeValidator) for each in field.metadata)
        if judged or holds_validator(field.annotation):
            yield kind, here
        inner = crds.inner_model(field.annotation)
        if inner is not None:
            yield from validated(kind, inner, f"{here}[]" if get_origin(field.annotation) is list else here)


def holds_validator(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return any(isinstance(each, AfterValidator | BeforeValidator) for each in annotation.__metadata__)
    return any(holds_validator(part) for part in get_args(annotation))


@pytest.mark.parametrize("kind", MODELS)
def test_every_validator_has_its_rule(kind: str) -> None:
    judged = set(validated(kind, MODELS[kind], ""))

    assert {("PrewarmPolicy", "spec.schedules[]"), ("PrewarmHold", "spec.for")} & judged
    assert judged - OTHERWISE.keys() - {(kind, path) for path in RULES[kind]} == set()


@pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.name)
def test_every_rule_stands_in_its_crd(kind: crds.Kind) -> None:
    text = crds.files()[f"{kind.plural}.yaml"]

    assert text.count("x-kubernetes-validations:") == len(RULES[kind.name])


def schemas(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for key, value in schema.get("properties", {}).items():
        yield from schemas(value, f"{path}.{key}")
    if "items" in schema:
        yield from schemas(schema["items"], f"{path}[]")


@pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.name)
def test_every_field_is_explained(kind: crds.Kind) -> None:
    (version,) = crds.definitions()[f"{kind.plural}.yaml"]["spec"]["versions"]
    given_by_kubernetes = {".apiVersion", ".kind", ".metadata"}
    fields = list(schemas(version["schema"]["openAPIV3Schema"], ""))
    leaves_of_lists = [path for path, schema in fields if path.endswith("[]") and schema["type"] != "object"]
    silent = [path for path, schema in fields if not schema.get("description")]

    assert sorted(silent) == sorted([*given_by_kubernetes, *leaves_of_lists])


def test_holds_are_bounded_as_those_of_the_api() -> None:
    asked = HoldRequest.model_json_schema()["properties"]
    (version,) = crds.definitions()["prewarmholds.yaml"]["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]

    for bound in ("minimum", "maximum", "default"):
        assert spec["replicas"][bound] == asked["replicas"][bound]
    assert spec["reason"]["maxLength"] == asked["reason"]["maxLength"]
    assert asked["for_s"]["maximum"] == LONGEST.total_seconds()


def test_the_example_hold_names_every_key_and_can_be_read() -> None:
    spelled = objects.EXAMPLE_HOLD.replace("  until:", "  # until:").replace("  # for:", "  for:")
    for text in (objects.EXAMPLE_HOLD, spelled):
        findings = Findings()
        assert read(PrewarmHold, Document("", yaml.safe_load(text), {}, {}), findings), findings.sorted()
    for name, field in HoldSpec.model_fields.items():
        assert re.search(rf"\b{field.alias or name}:", objects.EXAMPLE_HOLD)


DIGITS = st.integers(0, 70).map(str) | st.integers(0, 12).map(lambda number: f"0{number}")
WORDS = st.sampled_from(["MON", "fri", "Sun", "jan", "DEC", "L", "LW", "5L", "xyz", ""])
VALUES = st.one_of(DIGITS, DIGITS, DIGITS, WORDS)
ITEMS = st.one_of(
    st.just("*"),
    VALUES,
    st.builds("{}-{}".format, VALUES, VALUES),
    st.builds("{}#{}".format, VALUES, DIGITS),
    st.builds("{}/{}".format, st.just("*") | VALUES, DIGITS),
    st.builds("{}-{}/{}".format, VALUES, VALUES, DIGITS),
)
FIELDS = st.lists(ITEMS, min_size=1, max_size=3).map(",".join)
GAPS = st.sampled_from([" ", "  ", "\t"])
CRONS = st.tuples(*[FIELDS] * 5, GAPS, GAPS).map(lambda parts: f"{parts[5]}{parts[6].join(parts[:5])}{parts[5]}")


def of_a_rule(rule: str) -> re.Pattern[str]:
    """The last pattern that a rule matches its text with."""
    (pattern,) = re.findall(r'self\.matches\("((?:[^"\\]|\\.)*)"\)$', rule)
    return re.compile(re.sub(r"\\(.)", r"\1", pattern), re.ASCII)


CRON_RULE = of_a_rule(RULES["PrewarmPolicy"]["spec.schedules[].until"].rules[-1].rule)
TOLD_IN_STATUS = re.compile(r"Bad |never fires")
"""What cronsim says of a range that runs backwards, and the core of an expression that never fires."""


def core_says(expression: str) -> str | None:
    try:
        core_schedule.validate(Schedule("x", "UTC", until=expression, start="0 0 * * *"))
    except ValueError as error:
        return str(error)
    return None


@given(CRONS)
def test_the_cron_rule_takes_what_the_core_takes(expression: str) -> None:
    said = core_says(expression)
    if said is None:
        assert CRON_RULE.match(expression)
    elif CRON_RULE.match(expression):
        assert TOLD_IN_STATUS.search(said)


CRON_CASES = {
    "0 9 * * 1-5": True,
    "*/15 0-23/2 1,15 JAN-mar sun": True,
    "0 0 * * 5#2,1": True,
    "007 09 * * *": True,
    "5/10 * * * *": True,
    "60 * * * *": False,
    "0 24 * * *": False,
    "0 0 0 * *": False,
    "0 0 32 * *": False,
    "0 0 * 13 *": False,
    "0 0 * * 8": False,
    "0 0 * * 1#6": False,
    "*/0 * * * *": False,
    "0 0 * feb mon-": False,
    "0 0 * mon *": False,
    "@daily": False,
}


@pytest.mark.parametrize(("expression", "taken"), CRON_CASES.items())
def test_the_cron_rule(expression: str, taken: bool) -> None:
    assert bool(CRON_RULE.match(expression)) is taken
    assert (core_says(expression) is None) is taken


@given(st.from_regex(r"([0-9]{1,3}(\.[0-9]{1,2})?[dhms]){0,4}", fullmatch=True))
def test_the_duration_rule_takes_what_durations_do(text: str) -> None:
    pattern = re.match(
        r'self\.matches\("(.*)"\) && self != ""$', RULES["PrewarmPolicy"]["spec.coldStartCost"].rules[0].rule
    )
    assert pattern
    shaped = bool(re.match(pattern[1], text)) and text != ""
    try:
        seconds(text)
        taken = True
    except ValueError as error:
        taken = "longer than a year" in str(error)
    assert shaped is taken


def test_the_longest_duration_is_no_longer_than_its_bound() -> None:
    longest = "".join(f"000000001.{'0' * 9}{unit}" for unit in "dhms")

    assert seconds(longest) == 86400 + 3600 + 60 + 1
    assert len(longest) == crd_rules.LONGEST_DURATION
