"""Whatever stands in a file, `load` answers with findings, each on one line and inside the file."""

import copy
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from activator_ext.adapters.local.cluster_fields import fields_of
from activator_ext.adapters.local.example import EXAMPLE_POLICY
from activator_ext.adapters.local.manifests import Loaded, load
from tests.unit.adapters.local.build import RUNTIME, service

WHOLE = "---\n".join([RUNTIME, service(namespace="team-a", model="args: [--port=1]\n"), EXAMPLE_POLICY])
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all(WHOLE))
BOUNDED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check(path: Path, content: bytes) -> Loaded:
    path.write_bytes(content)
    loaded = load([path], {"models": path.parent})
    last = content.count(b"\n") + content.count(b"\r") + content.count(b"\xc2\x85") + content.count(b"\xe2\x80") + 1
    for finding in loaded.findings:
        assert 1 <= finding.line <= last
        assert str(finding).isprintable()
    return loaded


@BOUNDED
@given(content=st.binary(max_size=200))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    check(tmp_path / "f.yaml", content)


@BOUNDED
@given(content=st.text(alphabet="abk:-[]{}&*!|>%#'\"\\\n\t ,?<=0x._~@`\u0085\u2028é", max_size=120))
def test_any_text_of_yaml_s_own_signs(tmp_path: Path, content: str) -> None:
    check(tmp_path / "f.yaml", content.encode())


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["0 9 * * *", "5m"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in items for place in places(item, (*path, key)))]


PLACES = [(index, *place) for index, document in enumerate(OBJECTS) for place in places(document) if place]


@BOUNDED
@given(place=st.sampled_from(PLACES), value=VALUES)
def test_any_value_at_any_place_of_good_objects(tmp_path: Path, place: tuple[str | int, ...], value: Any) -> None:
    documents: Any = copy.deepcopy(OBJECTS)
    target = documents
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    check(tmp_path / "f.yaml", yaml.safe_dump_all(documents, allow_unicode=True).encode("utf-8", "replace"))


@BOUNDED
@given(key=st.sampled_from(sorted(fields_of("V1beta1PredictorSpec"))), value=VALUES)
def test_any_value_of_any_key_that_a_cluster_knows(tmp_path: Path, key: str, value: Any) -> None:
    documents = copy.deepcopy(OBJECTS)
    documents[1]["spec"]["predictor"][key] = value
    check(tmp_path / "f.yaml", yaml.safe_dump_all(documents, allow_unicode=True).encode("utf-8", "replace"))


@BOUNDED
@given(cut=st.integers(min_value=0, max_value=len(WHOLE)))
def test_a_file_that_ends_anywhere(tmp_path: Path, cut: int) -> None:
    check(tmp_path / "f.yaml", WHOLE[:cut].encode())


@BOUNDED
@given(argument=st.text(max_size=20), variable=st.text(max_size=12))
def test_any_argument_and_variable(tmp_path: Path, argument: str, variable: str) -> None:
    documents = copy.deepcopy(OBJECTS)
    model = documents[1]["spec"]["predictor"]["model"]
    model["args"] = [argument, f"--{argument}", f"--x={argument}"]
    model["env"] = [{"name": variable or "x", "value": argument}]
    check(tmp_path / "f.yaml", yaml.safe_dump_all(documents).encode("utf-8", "replace"))


def test_the_objects_varied_here_are_good(tmp_path: Path) -> None:
    loaded = check(tmp_path / "f.yaml", WHOLE.encode())
    assert loaded.ok
    assert len(loaded.services) == 1
