"""Engine arguments: however they are written, one meaning; and nothing that counts is lost."""

import json
import random
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cache.arguments import argument_inputs
from runtime.cache.compile_inputs import TABLE as MADE_TABLE
from runtime.cache.compile_inputs import Option, compile_inputs, parse

TABLE = compile_inputs()


def read(*args: str) -> dict[str, str]:
    return argument_inputs(args, TABLE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["--max-num-seqs", "8"], ["--max-num-seqs=8"]),
        (["--max-num-seqs", "8"], ["--max_num_seqs", "8"]),
        (["--max-num-seqs", "8"], ["--max_num_seqs=8"]),
        (["--max-num-seqs", "8"], ["--max-num-seq", "8"]),
        (["--max-num-seqs", "8"], ["--max-num-seqs", "08"]),
        (["--max-num-seqs", "8"], ["--max-num-seqs", "4", "--max-num-seqs", "8"]),
        (["--max-model-len", "8192"], ["--max-model-len", "8K"]),
        (["--max-model-len", "8000"], ["--max-model-len=8k"]),
        (["--max-model-len", "-1"], ["--max-model-len", "auto"]),
        (["--tensor-parallel-size", "2"], ["-tp", "2"]),
        (["--tensor-parallel-size", "2"], ["-tp=2"]),
        (["--quantization", "fp8"], ["-qfp8"]),
        (["--quantization", "fp8"], ["-q", "fp8"]),
        (["-O3"], ["-O", "3"]),
        (["-O3"], ["-O=3"]),
        (["-O3"], ["--optimization-level=3"]),
        (["--compilation-config", '{"mode": 3}'], ["-cc", '{"mode":3}']),
        (["--compilation-config", '{"mode": 3}'], ["-cc.mode=3"]),
        (["--compilation-config", '{"mode": 3}'], ["--compilation_config.mode", "3"]),
        (["-cc", '{"a": 1, "b": {"c": 2}}'], ["-cc.b.c=2", "-cc.a", "1"]),
        (["-cc", '{"a": ["x", "y", "z"]}'], ["-cc.a+", "x", "-cc.a+=y,z"]),
        (["-cc", '{"a": 1}'], ["-cc", '{"b": 2}', "-cc.a=1"]),
        (["--trust-remote-code"], ["--no-trust-remote-code", "--trust_remote_code"]),
        ([], ["--no-trust-remote-code"]),
        ([], ["--dtype", "auto"]),
        ([], ["--dtype=auto", "--tensor-parallel-size", "1", "-pp", "1"]),
        ([], ["--max-logprobs=20"]),
        ([], ["--hf-overrides", "{}"]),
        ([], ["--quantization", "None"]),
        (["--dtype", "auto", "--enforce-eager"], ["--enforce-eager"]),
        (["--cudagraph-capture-sizes", "1", "2"], ["--cudagraph_capture_sizes", "1", "2"]),
    ],
)
def test_two_spellings_are_one(one: list[str], other: list[str]) -> None:
    assert read(*one) == read(*other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["--max-num-seqs", "8"], ["--max-num-seqs", "16"]),
        (["--max-num-seqs", "8"], []),
        (["-tp", "2"], ["-pp", "2"]),
        (["--enforce-eager"], ["--no-enforce-eager"]),
        (["--enforce-eager"], []),
        (["-cc.mode=3"], ["-cc.mode=2"]),
        (["-cc.a=1", "-cc.a=2"], ["-cc.a=1"]),
        (["-cc", '{"b": 2}', "-cc.a=1"], ["-cc", '{"b": 2, "a": 1}']),
        (["--cudagraph-capture-sizes", "1", "2"], ["--cudagraph-capture-sizes", "2", "1"]),
        (["-O3"], ["-O2"]),
        (["--max-model-len", "8k"], ["--max-model-len", "8K"]),
    ],
)
def test_two_meanings_are_two(one: list[str], other: list[str]) -> None:
    assert read(*one) != read(*other)


@pytest.mark.parametrize(
    "args",
    [
        ["--seed", "7"],
        ["--served-model-name", "a", "b"],
        ["--gpu-memory-utilization", "0.5"],
        ["--load-format", "runai_streamer"],
        ["--tokenizer", "/elsewhere"],
        ["--shutdown-timeout", "20"],
        ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"],
        ["--disable-log-stats"],
        ["--hf-token", "hf_secret"],
        ["--hf-token"],
    ],
)
def test_what_changes_nothing_compiled_is_no_input(args: list[str]) -> None:
    assert read(*args) == {}


def test_what_nobody_knows_counts_as_it_is_written() -> None:
    assert read("--from-tomorrow", "1", "2", "--enforce-eager") == {"--from-tomorrow": "1 2", "enforce_eager": "true"}
    assert read("--from_tomorrow=1") == {"--from-tomorrow": "1"}
    assert read("--from-tomorrow.a=1") == {"--from-tomorrow.a": "1"}
    assert read("stray") == {"stray": ""}
    assert read("-1") == {"-1": ""}


def test_an_argument_without_its_value_is_kept() -> None:
    assert read("--max-num-seqs") == {"max_num_seqs": ""}


def test_a_list_ends_at_the_next_option_and_not_at_a_negative_number() -> None:
    assert read("--cudagraph-capture-sizes", "1", "-2", "--enforce-eager") == {
        "cudagraph_capture_sizes": '["1", "-2"]',
        "enforce_eager": "true",
    }


FINER = {"-cc.cudagraph_capture_sizes=[1,2,4]"}
"""Told apart by us, though vLLM reads the words "1" and 1 as one where a number belongs: the safe side."""

SPELLINGS: dict[str, str] = json.loads(MADE_TABLE.read_text())["spellings"]


@pytest.mark.parametrize("line", SPELLINGS)
def test_it_reads_a_command_line_as_vllm_does(line: str) -> None:
    alike = {other for other in SPELLINGS if SPELLINGS[other] == SPELLINGS[line]}
    found = {other for other in SPELLINGS if read(*shlex.split(other)) == read(*shlex.split(line))}
    assert found == alike - FINER if line not in FINER else found == {line}


VALUES = {"int": ["3", "5"], "float": ["0.25", "0.75"], "json": ['{"x": 1}', '{"x": 2}'], "text": ["one", "two"]}


def written(option: Option, value: str) -> list[str]:
    flag = next(flag for flag in option.flags if not flag.startswith("--no-"))
    if option.kind == "switch":
        return [flag if value == "true" else f"--no-{flag[2:]}"]
    return [flag] if option.kind == "flag" else [flag, value]


def two_values(option: Option) -> list[str]:
    return ["true", "false"] if option.kind in ("switch", "flag") else VALUES[option.kind.rpartition("-")[2]]


@pytest.mark.parametrize("name", sorted(TABLE.options))
def test_each_argument_of_vllm_counts_as_the_table_says(name: str) -> None:
    option = TABLE.options[name]
    found = [read(*written(option, value)) for value in two_values(option)]
    if option.counts:
        assert any(each for each in found)
        assert option.kind == "flag" or found[0] != found[1]
        assert all(set(each) <= {name} for each in found)
    else:
        assert found == [{}, {}]


@given(st.data())
def test_order_and_spelling_change_nothing(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(sorted(TABLE.options)), unique=True, max_size=6))
    picked = [(TABLE.options[name], data.draw(st.sampled_from(two_values(TABLE.options[name])))) for name in chosen]
    plain = [word for option, value in picked for word in written(option, value)]
    shuffler = random.Random(data.draw(st.integers()))
    shuffler.shuffle(picked)
    other: list[str] = []
    for option, value in picked:
        flag, *rest = written(option, value)
        if flag.startswith("--") and shuffler.random() < 0.5:
            flag = "--" + flag[2:].replace("-", "_")
        other += [f"{flag}={rest[0]}"] if rest and shuffler.random() < 0.5 else [flag, *rest]
    assert read(*plain) == read(*other)


@given(st.lists(st.text(max_size=12), max_size=6))
def test_any_words_are_read(words: list[str]) -> None:
    found = argument_inputs(words, TABLE)
    assert json.dumps(found)


def test_only_a_written_no_leaves_an_argument_out() -> None:
    table = parse('{"vllm": "1", "arguments": {"a": {"flags": ["--a"], "kind": "text"}}, "environment": {"B": {}}}')
    assert table.options["a"].counts
    assert table.variables["B"].counts
