"""A shape matrix: what it means, and what it may not be."""

from pathlib import Path

import pytest

from runtime.cache.cli.failures import Refused
from runtime.cache.cli.matrix import MOST_VARIANTS, Variant, read_matrix


def read(tmp_path: Path, text: str) -> tuple[Variant, ...]:
    file = tmp_path / "shapes.yaml"
    file.write_text(text)
    return read_matrix(file)


def test_each_entry_is_the_product_of_its_axes(tmp_path: Path) -> None:
    found = read(
        tmp_path, "- axes: {max-model-len: [512, 1024], dtype: [bfloat16, float32]}\n- args: --max-num-seqs 4\n"
    )
    assert [each.args for each in found] == [
        ("--max-model-len=512", "--dtype=bfloat16"),
        ("--max-model-len=512", "--dtype=float32"),
        ("--max-model-len=1024", "--dtype=bfloat16"),
        ("--max-model-len=1024", "--dtype=float32"),
        ("--max-num-seqs", "4"),
    ]
    assert [each.name for each in found][::4] == ["--max-model-len=512 --dtype=bfloat16", "--max-num-seqs 4"]


def test_flags_defaults_and_values_that_are_json(tmp_path: Path) -> None:
    found = read(tmp_path, "- axes: {enforce-eager: [true, false], --compilation-config: [null, {mode: 3}]}\n")
    assert [each.args for each in found] == [
        ("--enforce-eager",),
        ("--enforce-eager", '--compilation-config={"mode": 3}'),
        (),
        ('--compilation-config={"mode": 3}',),
    ]
    assert found[2].name == "as given"


def test_names_arguments_and_environment(tmp_path: Path) -> None:
    text = "- {name: fp8, args: [--quantization, fp8], env: {OMP_NUM_THREADS: 2}, axes: {max-num-seqs: [1]}}\n"
    (found,) = read(tmp_path, text)
    assert found == Variant(
        "fp8 --max-num-seqs=1", ("--quantization", "fp8", "--max-num-seqs=1"), {"OMP_NUM_THREADS": "2"}
    )
    (found,) = read(tmp_path, "- env: {OMP_NUM_THREADS: 2}\n")
    assert found.name == "OMP_NUM_THREADS=2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{axes: [", "line 1: is not YAML"),
        ("axes: {dtype: [a]}", "Input should be a valid list"),
        ("- {axis: {dtype: [a]}}", "0.axis: Extra inputs are not permitted"),
        ("- axes: {dtype: bfloat16}", "0.axes.dtype: Input should be a valid list"),
        ("- axes: {dtype: []}", "0.axes.dtype: List should have at least 1 item"),
        ("- axes: {'dtype x': [a]}", "String should match pattern"),
        ('- args: "--a \'b"', "0.args: Value error, No closing quotation"),
        ("[]", "has no entry"),
        ("", "Input should be a valid list"),
        (f"- axes: {{a: {list(range(MOST_VARIANTS + 1))}}}", f"is more than {MOST_VARIANTS} variants"),
        ("- axes: {" + ", ".join(f"a{n}: [1, 2, 3, 4]" for n in range(40)) + "}", "is more than"),
    ],
)
def test_what_is_none_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        read(tmp_path, text)
    assert str(refused.value).startswith(str(tmp_path / "shapes.yaml"))
    assert said in str(refused.value)


def test_a_matrix_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read"):
        read_matrix(tmp_path / "none.yaml")
