import pytest

from runtime.host.vllm_words import MOUNT, Words, read_words

READ = {
    "nothing": ("", Words(MOUNT, (), ())),
    "the model first": ("/m --dtype auto", Words("/m", (), ("--dtype", "auto"))),
    "the model as an option": ("--dtype=auto --model /m", Words("/m", (), ("--dtype=auto",))),
    "the model joined": ("--model=s3://b/m", Words("s3://b/m", (), ())),
    "the same model twice": ("/m --model=/m", Words("/m", (), ())),
    "a whole command": ("vllm serve /m --port 9", Words("/m", (), (), port=9)),
    "vLLM's entrypoint": ("serve /m", Words("/m", (), ())),
    "names add up": ("--served-model-name a b --served-model-name=c a", Words(MOUNT, ("a", "b", "c"), ())),
    "with underscores": ("--served_model_name a --model=/m", Words("/m", ("a",), ())),
    "a place": ("--host :: --port=8000", Words(MOUNT, (), (), "::", 8000)),
    "a number is no option": ("--seed -1 --x -2 3", Words(MOUNT, (), ("--seed", "-1", "--x", "-2", "3"))),
    "a short option": ("/m -tp 2 -cc.mode 3", Words("/m", (), ("-tp", "2", "-cc.mode", "3"))),
}


@pytest.mark.parametrize(("text", "words"), READ.values(), ids=READ)
def test_a_command_line_is_read(text: str, words: Words) -> None:
    assert read_words(text.split()) == words


REFUSED = {
    "two models": ("/m --model=/n", "two models, '/m' and '/n'"),
    "a word too many": ("--model /m /n", "'/n' after --model"),
    "no value": ("--served-model-name --dtype auto", "--served-model-name has no value"),
    "an empty value": ("--model=", "--model has no value"),
    "no number": ("--port=http", "--port 'http' is no port"),
    "a port beyond all": ("--port 65536", "is no port"),
}


@pytest.mark.parametrize(("text", "says"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_meant_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_words(text.split())
