"""What a service's files may have an engine fetch, open, load or log: each row of docs/reference/access.md."""

import pytest

from runtime.contract import EngineSpec
from runtime.engine.argv import NO_MEDIA, command_line, environment
from runtime.engine.dirs import EngineDirs
from scripts.access import ROWS, Row, outcome
from tests.unit.runtime.engine.test_argv import DIRS

# Said in so many words, or of this machine; whatever else the page names must not get through.
LET_THROUGH = {
    "storageUri: pvc://models/tiny/",
    "storageUri: file:///srv/models/chat",
    "storageUri: pvc://models/link",
    "s3://bucket/model --load-format=runai_streamer",
    "--tokenizer=org/tokenizer",
    "HF_HUB_OFFLINE=0",
    "--chat-template=/srv/template.jinja",
    '--hf-overrides={"rope_theta": 1e6}',
    "--trust-remote-code",
    "--worker-cls=mine.Worker",
    "--tool-parser-plugin=/srv/parser.py",
    "--allowed-media-domains=images.example",
    "--allowed-local-media-path=/srv/images",
    "AWS_ENDPOINT_URL=http://store.example",
}


@pytest.mark.parametrize("row", ROWS, ids=[row.shown for row in ROWS])
def test_what_is_not_said_in_so_many_words_is_not_let_through(row: Row) -> None:
    assert (outcome(row) == "let through") == (row.shown in LET_THROUGH)


def test_an_engine_has_no_url_fetched_for_a_request_unless_its_service_names_the_domain() -> None:
    named = ("--allowed-media-domains", "images.example")
    spec = EngineSpec(service="test/chat", served_names=("chat",), model="/m", args=named)
    words = command_line(spec, 8000, None)
    last = max(at for at, word in enumerate(words) if word == "--allowed-media-domains")
    assert words[last : last + 2] == named, "the last one counts"
    assert words.index(NO_MEDIA) < last


@pytest.mark.parametrize("dirs", [DIRS])
def test_an_engine_looks_for_nothing_on_the_hub(dirs: EngineDirs) -> None:
    spec = EngineSpec(service="test/chat", served_names=("chat",), model="/m")
    parent = {"HTTPS_PROXY": "http://proxy", "HF_TOKEN": "secret", "AWS_SECRET_ACCESS_KEY": "secret", "PATH": "/bin"}
    env = environment(spec, dirs, parent, 1, None)
    assert (env["HF_HUB_OFFLINE"], env["TRANSFORMERS_OFFLINE"]) == ("1", "1")
    assert not {"HTTPS_PROXY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY"} & env.keys()
