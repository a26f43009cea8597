"""Fingerprint: one key over named inputs, stored and read back, compared."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cache.fingerprint import SCHEMA, Difference, Fingerprint, FingerprintError, difference

names = st.from_regex(r"[a-z][a-z0-9-]{0,8}(\.[A-Za-z_.-]{1,20})?", fullmatch=True)
inputs = st.dictionaries(names, st.text(max_size=30), max_size=8)


@given(inputs, st.randoms())
def test_the_order_of_inputs_does_not_matter(given_inputs: dict[str, str], random: Random) -> None:
    shuffled = list(given_inputs.items())
    random.shuffle(shuffled)
    assert Fingerprint(given_inputs).key == Fingerprint(dict(shuffled)).key


@given(inputs, inputs)
def test_keys_are_equal_exactly_when_nothing_differs(first: dict[str, str], second: dict[str, str]) -> None:
    one, two = Fingerprint(first), Fingerprint(second)
    assert (one.key == two.key) == (difference(one, two) == ()) == (first == second)


@given(inputs)
def test_what_is_stored_is_read_back(given_inputs: dict[str, str]) -> None:
    made = Fingerprint(given_inputs)
    assert Fingerprint.from_json(made.to_json()) == made


@given(inputs, names, st.text(max_size=5), st.text(max_size=5))
def test_no_value_can_pass_for_another_name(given_inputs: dict[str, str], name: str, value: str, other: str) -> None:
    # `a` = `b,c` and `a` = `b`, `c` = … would be one text if they were merely joined.
    one = Fingerprint({**given_inputs, name: value + other})
    two = Fingerprint({**given_inputs, name: value, f"{name[:1]}x.{'y'}": other})
    assert one.key != two.key


def test_the_key_is_64_hex_digits_and_stays_what_it_was() -> None:
    assert Fingerprint({"b": "2", "a": "1"}).key == "28d14f896228ff0d704a5e0a3e07a60cfeeca522573a9b7ec75b5c604e2bdfdf"


def test_it_cannot_be_changed() -> None:
    made: Any = Fingerprint({"a": "1"})
    with pytest.raises(TypeError):
        made.inputs["a"] = "2"


@pytest.mark.parametrize("name", ["", "A", "a b", "a.", "a\n.b", "a.b\x00"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(FingerprintError, match=r"is no `group\.name`"):
        Fingerprint({name: "1"})


def stored(**changed: object) -> str:
    return json.dumps({**json.loads(Fingerprint({"a": "1"}).to_json()), **changed})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("\x00\xff", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        ('{"schema": 1, "schema": 1}', "twice"),
        ("{}", "schema None"),
        (stored(schema=SCHEMA + 1), f"reads {SCHEMA}"),
        (stored(schema="1"), "schema '1'"),
        (stored(inputs=[]), "has no inputs"),
        (stored(inputs={"a": 1}), "has no inputs"),
        (stored(inputs={"a": "2"}), "changed by hand or damaged"),
        (stored(key="0" * 64), "changed by hand or damaged"),
        (stored(inputs={"A": "2"}), "is no `group.name`"),
    ],
)
def test_rubbish_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(FingerprintError, match=says) as refused:
        Fingerprint.from_json(text, "here.json")
    assert "here.json" in str(refused.value) or "group.name" in says


def test_a_file_of_any_bytes_is_refused_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "fingerprint.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FingerprintError, match=r"fingerprint\.json is no fingerprint"):
        Fingerprint.load(path)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "fingerprint.json"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FingerprintError, match="more than"):
        Fingerprint.load(path)


def test_difference_names_what_differs_with_both_values() -> None:
    one = Fingerprint({"platform": "cpu", "argument.max_num_seqs": "8", "libc": "x"})
    two = Fingerprint({"platform": "cpu", "argument.max_num_seqs": "16", "image": "sha256:0"})
    assert difference(one, two) == (
        Difference("argument.max_num_seqs", "8", "16"),
        Difference("image", None, "sha256:0"),
        Difference("libc", "x", None),
    )
