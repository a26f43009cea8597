"""What differs between two fingerprints, told to a person and to a program."""

import pytest

from runtime.cache.explain import explain, explain_json, meaning
from runtime.cache.fingerprint import Fingerprint


def test_explain_has_one_line_for_each_with_what_it_means() -> None:
    tensors = "sha256:" + "a" * 64
    one = Fingerprint({"argument.max_num_seqs": "8", "variable.VLLM_PLUGINS": "a b ", "model.tensors": tensors})
    two = Fingerprint({"argument.max_num_seqs": "16", "model.tensors": "sha256:" + "b" * 64})
    assert explain(one, two).splitlines() == [
        "--max-num-seqs 8 ≠ 16: sizes of compiled batches",
        "model tensors sha256:aaaaaaaaaaaa… ≠ sha256:bbbbbbbbbbbb…: names, types or shapes of the tensors",
        'VLLM_PLUGINS "a b " ≠ (unset): a variable that changes what is compiled',
    ]


def test_explain_names_a_default_and_an_unknown_argument() -> None:
    draft = {"argument.speculative_config.files": "x"}
    one = Fingerprint({"argument.dtype": "bfloat16", "argument.--new-thing": "3", **draft})
    assert explain(one, Fingerprint({})).splitlines() == [
        "--new-thing 3 ≠ (default): an engine argument that changes what is compiled",
        "--dtype bfloat16 ≠ (default): number format that the code is compiled for",
        "--speculative-config (files) x ≠ (default): an engine argument that changes what is compiled",
    ]


def test_explain_says_so_when_nothing_differs() -> None:
    made = Fingerprint({"a": "1"})
    assert explain(made, made) == f"nothing differs: both have key {made.key}"


def test_explain_has_a_form_for_programs() -> None:
    one, two = Fingerprint({"argument.dtype": "bfloat16"}), Fingerprint({})
    assert explain_json(one, two) == {
        "same": False,
        "keys": [one.key, two.key],
        "differences": [
            {
                "input": "argument.dtype",
                "first": "bfloat16",
                "second": None,
                "meaning": "number format that the code is compiled for",
            }
        ],
    }


def test_no_control_character_of_a_value_reaches_the_terminal() -> None:
    shown = explain(Fingerprint({"model.url": "s3://a\x1b[2J\n"}), Fingerprint({}))
    assert shown.isprintable()


@pytest.mark.parametrize(
    "name", ["argument.x", "wheel.torch", "model.config.hidden_size", "model.code.m.py", "model.x", "new"]
)
def test_every_input_has_a_meaning(name: str) -> None:
    assert meaning(name)
