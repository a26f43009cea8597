"""`pilotlight cache build`, with the fake engine that compiles: what it makes is what a host's start asks for."""

import asyncio
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from runtime.cache.labels import arguments_of
from runtime.cache.trust import TrustPolicy
from runtime.contract import Verdict
from tests.fakes.model import fake_command, make_model
from tests.unit.runtime.cache.starting import Machine, until
from tests.unit.runtime.cache.test_cli import Host

ENGINE = ("--engine-command", shlex.join(fake_command()))


class Builder(Host):
    """A host that builds one model into `far`."""

    def __init__(self, root: Path, **ways: Any) -> None:
        super().__init__(root)
        self.far = root / "far"
        self.model = make_model(root / "model", **{"compiles": True, **ways})

    def build(self, *more: str | Path, code: int = 0) -> list[dict[str, Any]]:
        told = self.json("build", self.model, "--store", self.far, *ENGINE, *more, code=code)
        assert told["store"] == str(self.far)
        variants: list[dict[str, Any]] = told["variants"]
        return variants

    def matrix(self, text: str) -> Path:
        file = self.root / "shapes.yaml"
        file.write_text(text)
        return file

    @property
    def logs(self) -> list[Path]:
        return sorted(self.state.glob("logs/cache-build/*"))


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where drafts go; nothing may be left in it."""
    path = tmp_path / "scratch"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    yield path
    assert list(path.iterdir()) == []


@pytest.fixture
def builder(tmp_path: Path, scratch: Path) -> Builder:
    return Builder(tmp_path)


def test_a_start_uses_what_was_built(builder: Builder) -> None:
    builder.run("keygen", builder.root / "build.key")
    args = ("--max-num-seqs=4", "--dtype=bfloat16")
    (told,) = builder.build("--args", " ".join(args), "--key", builder.root / "build.key")
    assert (told["result"], told["verdict"], told["why"]) == ("built", "used", None)
    assert (told["variant"], told["compile_s"] is not None) == (" ".join(args), True)

    policy = builder.root / "trust.yaml"
    pem = (builder.root / "build.key.pub").read_text()
    policy.write_text(json.dumps({"keys": [{"name": "builds", "public_key": pem}]}))
    host = Machine(
        builder.root / "host",
        model=builder.model,
        args=args,
        stores=[f"file://{builder.far}"],
        policy=TrustPolicy.load(policy),
    )
    record = asyncio.run(host.start())
    assert (record.cache.key, record.cache.digest) == (told["key"], told["digest"])
    assert record.cache.verdict is Verdict.USED
    asyncio.run(host.close())
    (row,) = builder.json("ls", builder.far, "--trust", policy)
    assert (row["signer"], row["size_bytes"]) == ("builds", told["size_bytes"])
    assert row["arguments"] == arguments_of(host.fingerprint.inputs)


def test_a_matrix_is_built_once(builder: Builder) -> None:
    shapes = builder.matrix("- axes: {max-model-len: [512, 1024]}\n- {name: again, args: --max_model_len 512}\n")
    first, second, again = builder.build("--matrix", shapes)
    assert [each["result"] for each in (first, second, again)] == ["built", "built", "exists"]
    assert again["why"] == "the same key as --max-model-len=512"
    assert len({first["key"], second["key"]}) == 2
    assert [each["result"] for each in builder.build("--matrix", shapes)] == ["exists"] * 3
    assert len(builder.json("ls", builder.far)) == 2
    assert [each["result"] for each in builder.build("--matrix", shapes, "--force")] == ["built", "built", "exists"]
    assert len(builder.json("ls", builder.far)) == 4


def test_for_people(builder: Builder) -> None:
    out, err = builder.run("build", builder.model, *ENGINE)
    head, row = out.splitlines()
    assert head.split() == ["variant", "key", "result", "verdict", "compile", "size", "took"]
    assert row.split()[:2] == ["as", "given"]
    assert "  built   used" in row
    assert err.startswith("[1/1] as given: built in ")
    assert "as given: exists" in builder.run("build", builder.model, *ENGINE)[1], "this host's own shelf, by default"
    assert builder.logs == []


def test_one_that_fails_stops_no_other(builder: Builder) -> None:
    (builder.model / "fake.json").write_text(
        json.dumps({"compiles": True, "once": True, "exit_at": {"stage": "device_init", "code": 3}})
    )
    shapes = builder.matrix("- axes: {max-model-len: [512, 1024]}\n")
    lost, kept = builder.build("--matrix", shapes, "--no-proof", code=1)
    assert (lost["result"], lost["digest"]) == ("failed", None)
    assert "the fake was told to end at device_init" in lost["why"]
    assert kept["result"] == "failed", "no longer told to compile, it leaves nothing to bundle"
    assert "leave this variant out" in kept["why"]
    (log,) = builder.logs
    assert "the fake was told to end" in log.read_text()


def test_a_bundle_that_is_not_used_is_not_published(tmp_path: Path, scratch: Path) -> None:
    builder = Builder(tmp_path, compiles="new")  # it looks for an artifact of another name at each start
    (told,) = builder.build(code=1)
    assert (told["result"], told["digest"]) == ("failed", None)
    assert "not published: an engine with the bundle did not just load it, verdict recompiled" in told["why"]
    assert not list(builder.far.glob("bundles/*/*.bundle"))
    (told,) = builder.build("--no-proof")
    assert (told["result"], told["verdict"]) == ("built", None)


def test_what_is_there_and_not_trusted_is_built_over(builder: Builder) -> None:
    (mine,) = builder.build()
    other = Builder(builder.root)
    other.state = builder.root / "other"
    (told,) = other.build()
    assert told["result"] == "built"
    assert (told["key"], told["digest"] == mine["digest"]) == (mine["key"], False)
    key = builder.state / "engines" / ".shelf" / "signing-key.pem.pub"
    third = Builder(builder.root)
    third.state = builder.root / "third"
    other_key = other.state / "engines" / ".shelf" / "signing-key.pem.pub"
    (told,) = third.build("--trust-key", key, "--trust-key", other_key)
    assert told["result"] == "exists"


def test_a_damaged_bundle_is_built_anew(builder: Builder) -> None:
    (told,) = builder.build()
    (file,) = builder.far.glob("bundles/*/*.bundle")
    file.write_bytes(b"\0" * file.stat().st_size)
    (again,) = builder.build()
    assert (again["result"], again["key"]) == ("built", told["key"])
    assert again["digest"] != told["digest"]
    assert [each["result"] for each in builder.build()] == ["exists"]


def test_what_can_never_work_is_said_before_any_start(builder: Builder) -> None:
    shapes = builder.matrix("- {}\n- args: --port 80\n")
    err = builder.refused("build", builder.model, "--matrix", shapes, *ENGINE)
    assert "is set by the launcher (--port)" in err
    assert "no such model directory" in builder.refused("build", builder.root / "none", *ENGINE)
    assert "is no store" in builder.refused("build", builder.model, "--store", "ftp://x/y", *ENGINE)
    assert "cannot be read" in builder.refused("build", builder.model, "--key", builder.root / "none", *ENGINE)
    builder.run("build", builder.model, "--work", builder.root / "none", code=2)
    assert not builder.far.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_process_and_no_file(tmp_path: Path, number: signal.Signals) -> None:
    builder = Builder(tmp_path, hang_at="compile", child=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = ["build", str(builder.model), "--store", str(builder.far), *ENGINE]
    running = subprocess.Popen(
        [sys.executable, "-m", "activator_ext", "cache", *words],
        env={**os.environ, "PILOTLIGHT_STATE": str(builder.state), "TMPDIR": str(scratch)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        process = psutil.Process(running.pid)
        asyncio.run(until(lambda: "KV cache layout" in "".join(log.read_text() for log in builder.logs)))
        engines = process.children(recursive=True)
        assert len(engines) >= 2
        running.send_signal(number)
        _, err = running.communicate(timeout=30)
    finally:
        with contextlib.suppress(ProcessLookupError):
            running.kill()
        running.wait()
        assert running.stderr is not None
        running.stderr.close()
    assert err.endswith("interrupted: nothing is left behind\n")
    assert running.returncode == 128 + number
    assert [each for each in engines if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []
    assert list(scratch.iterdir()) == []
    assert not list(builder.far.glob("bundles/*/*"))
    locks = [json.loads(path.read_text()) for path in builder.far.glob("locks/**/*.json")]
    assert all(lock.get("holder") is None for lock in locks), "nobody has to wait for who was interrupted"
