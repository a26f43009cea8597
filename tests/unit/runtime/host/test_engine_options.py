from pathlib import Path

import pytest

from runtime.contract import Golden
from runtime.engine.launch import Listen
from runtime.host import engine_options
from runtime.host.engine_options import ROOT, engine_environment, read_options
from runtime.host.reporter import TOKEN, Controller


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine_options, "BAKED", tmp_path / "no-cache")
    monkeypatch.setattr(engine_options, "TRUST", tmp_path / "no-trust.yaml")


def test_a_pod_that_says_nothing_serves_what_is_mounted() -> None:
    options = read_options([], {})
    assert options.spec.model == "/mnt/models"
    assert options.spec.served_names == ("/mnt/models",), "as vLLM names it"
    assert options.spec.service == "default/engine"
    assert options.listen == Listen("0.0.0.0", 8080)
    assert options.root == ROOT
    assert options.fork
    assert (options.stores, options.publish_to, options.trust) == ((), None, None)


def test_without_two_dashes_every_word_is_vllms() -> None:
    options = read_options(["--model=/m", "--served-model-name", "team/chat", "chat", "--store=x"], {})
    assert options.spec.args == ("--store=x",)
    assert options.spec.service == "team/chat"
    assert options.spec.served_names == ("team/chat", "chat")


def test_a_flag_counts_more_than_its_variable() -> None:
    environ = {
        "PILOTLIGHT_LISTEN": "0.0.0.0:1",
        "PILOTLIGHT_STORES": "file:///a\n s3://b/c ",
        "PILOTLIGHT_DRAIN_S": "7",
    }
    by_variable = read_options(["/m"], environ)
    assert by_variable.listen == Listen("0.0.0.0", 1)
    assert by_variable.stores == ("file:///a", "s3://b/c")
    assert by_variable.spec.drain_timeout_s == 7
    flags = ["--listen=[::]:2", "--store=/x", "--drain-s", "9", "--no-fork", "--service=t/s", "--", "/m", "--port=3"]
    by_flag = read_options(flags, environ)
    assert by_flag.listen == Listen("::", 2)
    assert by_flag.listen.near_url == "http://[::1]:2"
    assert by_flag.stores == ("/x",)
    assert by_flag.spec.drain_timeout_s == 9
    assert by_flag.spec.service == "t/s"
    assert not by_flag.fork


def test_sizes_by_history_are_asked_for() -> None:
    assert not read_options(["/m"], {}).shapes
    assert read_options(["/m"], {"PILOTLIGHT_SHAPES": "1"}).shapes
    assert read_options(["--shapes", "--", "/m"], {}).shapes


def test_pickle_is_allowed_by_name() -> None:
    assert read_options(["/m"], {}).spec.pickle == ()
    assert read_options(["/m"], {"PILOTLIGHT_ALLOW_PICKLE": "a*.bin b.pt"}).spec.pickle == ("a*.bin", "b.pt")
    flags = ["--allow-pickle", "a.bin", "--allow-pickle=c.pt", "--", "/m"]
    assert read_options(flags, {"PILOTLIGHT_ALLOW_PICKLE": "b.pt"}).spec.pickle == ("a.bin", "c.pt")
    for wrong in ("*.bin", "model.safetensors", "../x.bin", "*"):
        with pytest.raises(ValueError, match=r"pickle\.0"):
            read_options(["--allow-pickle", wrong, "--", "/m"], {})


def test_the_image_may_bring_code_and_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust = tmp_path / "trust.yaml"
    trust.touch()
    monkeypatch.setattr(engine_options, "BAKED", tmp_path)
    monkeypatch.setattr(engine_options, "TRUST", trust)
    options = read_options(["--store=s3://b/c", "--", "/m"], {})
    assert options.stores == ("baked:", "s3://b/c")
    assert options.trust == trust
    assert read_options(["--trust=/other", "--", "/m"], {}).trust == Path("/other")


def test_a_golden_prompt_may_be_given(tmp_path: Path) -> None:
    file = tmp_path / "golden.json"
    file.write_text('{"prompt": "Hi", "max_tokens": 2, "tokens": [3, 4]}')
    assert read_options([], {"PILOTLIGHT_GOLDEN": str(file)}).spec.golden == Golden(
        prompt="Hi", max_tokens=2, tokens=(3, 4)
    )
    file.write_text('{"max_tokens": 0}')
    with pytest.raises(ValueError, match=r"golden\.json: max_tokens"):
        read_options([], {"PILOTLIGHT_GOLDEN": str(file)})
    with pytest.raises(ValueError, match="cannot be read"):
        read_options(["--golden=/nowhere", "--"], {})


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--listen=8080", "--"], "no ADDRESS:PORT"),
        (["--listen=0.0.0.0:0", "--"], "no ADDRESS:PORT"),
        (["--service=Chat", "--"], "service 'Chat'"),
        (["--shutdown-timeout=5"], "set by the launcher"),
        (["--api-key=x"], "set by the launcher"),
        (["a", "b"], "belongs to no option"),
    ],
)
def test_what_is_wrong_is_said(argv: list[str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_options(argv, {})


def test_an_unknown_option_of_ours_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_options(["--stores=x", "--", "/m"], {})
    assert ended.value.code == 2
    assert "--stores" in capsys.readouterr().err


def test_what_a_pod_gives_its_engine() -> None:
    passed, dropped = engine_environment(
        {
            "AWS_ENDPOINT_URL": "http://s3",
            "VLLM_USE_V2": "1",
            "VLLM_SERVER_DEV_MODE": "1",
            "VLLM_CACHE_ROOT": "/x",
            "PATH": "/bin",
            "PILOTLIGHT_STORES": "s3://b",
            "SECRET": "s",
            # A Service named `vllm`, as Kubernetes tells each pod of its namespace of it.
            "VLLM_PORT": "tcp://10.0.0.1:8000",
            "VLLM_SERVICE_HOST": "10.0.0.1",
            "VLLM_SERVICE_PORT": "8000",
            "VLLM_SERVICE_PORT_HTTP": "8000",
            "VLLM_PORT_8000_TCP": "tcp://10.0.0.1:8000",
            "VLLM_PORT_8000_TCP_PROTO": "tcp",
        }
    )
    assert passed == {"AWS_ENDPOINT_URL": "http://s3", "VLLM_USE_V2": "1"}
    assert dropped == ("VLLM_CACHE_ROOT", "VLLM_SERVER_DEV_MODE")


def test_the_controller_to_tell_is_named_by_flag_or_variable(tmp_path: Path) -> None:
    assert read_options(["/m"], {}).controller is None
    environ = {"PILOTLIGHT_CONTROLLER_URL": "https://controller:8443", "PILOTLIGHT_CONTROLLER_CA": "/ca.crt"}
    assert read_options(["/m"], environ).controller == Controller("https://controller:8443", TOKEN, Path("/ca.crt"))
    flags = ["--controller=https://other", f"--controller-token={tmp_path}", "--", "/m"]
    assert read_options(flags, environ).controller == Controller("https://other", tmp_path, Path("/ca.crt"))
    assert "PILOTLIGHT_CONTROLLER_URL" not in read_options(["/m"], environ).spec.env
