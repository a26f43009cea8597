"""`pilotlight cache` as a user types it, on bundles of a few kilobytes."""

import json
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from runtime.cache.cli import app
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.layout import environment
from runtime.cache.quarantine import Quarantine
from runtime.cache.signing import PublicKey
from tests.fakes.model import make_model
from tests.unit.runtime.cache.trees import FILES, FINGERPRINT, make_tree, read_tree

OTHER = Fingerprint({**FINGERPRINT.inputs, "argument.max_num_seqs": "16"})


class Host:
    """A state directory, and the command run with it."""

    def __init__(self, root: Path, name: str = "state") -> None:
        self.root, self.state = root, root / name
        self.store = self.state / "engines" / ".shelf" / "store"

    def run(self, *words: str | Path, code: int = 0) -> tuple[str, str]:
        """stdout and stderr of a command that ends with `code`."""
        done = CliRunner().invoke(app, [str(word) for word in words], env={"PILOTLIGHT_STATE": str(self.state)})
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == code, done.output
        return done.stdout, done.stderr

    def json(self, *words: str | Path, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code)[0])

    def refused(self, *words: str | Path) -> str:
        """The one line of a command that is refused."""
        out, err = self.run(*words, code=1)
        assert out == ""
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err

    def pack(self, name: str, fingerprint: Fingerprint = FINGERPRINT, *more: str | Path) -> Path:
        """A bundle file of `make_tree`, signed by this host."""
        tree = self.root / "tree"
        if not tree.exists():
            make_tree(tree)
        file = self.root / f"{fingerprint.key[:8]}.json"
        file.write_text(fingerprint.to_json())
        self.run("pack", tree, "--fingerprint", file, "-o", self.root / name, "--compile-s", "21.5", *more)
        return self.root / name


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def far(tmp_path: Path) -> Path:
    return tmp_path / "far"


def test_pack_verify_restore(host: Host) -> None:
    bundle = host.pack("a.bundle")
    out, _ = host.run("verify", bundle)
    assert out.startswith(f"good     {bundle}: ")
    assert out.endswith("signed by this host\n")
    out, _ = host.run("restore", bundle, host.root / "into")
    assert read_tree(host.root / "into") == FILES
    shown = dict(line.strip().split("=", 1) for line in out.splitlines()[1:])
    assert shown == environment(host.root / "into")


def test_json_of_pack_verify_restore(host: Host) -> None:
    file = host.root / "f.json"
    file.write_text(FINGERPRINT.to_json())
    made = host.json("pack", make_tree(host.root / "tree"), "--fingerprint", file, "-o", host.root)
    assert set(made) == {"file", "key", "digest", "size_bytes", "files", "left_out"}
    assert Path(made["file"]).name == f"{FINGERPRINT.key}-{made['digest']}.bundle"
    (told,) = host.json("verify", made["file"])
    assert (told["good"], told["key"], told["digest"]) == (True, FINGERPRINT.key, made["digest"])
    assert told["signer"] == "this host"
    assert "torch-compile" in told["parts"]
    told = host.json("restore", made["file"], host.root / "into")
    assert (told["into"], told["key"]) == (str(host.root / "into"), FINGERPRINT.key)
    assert told["env"]["VLLM_CACHE_ROOT"] == str(host.root / "into")


def test_the_fingerprint_of_a_pack_is_that_of_the_model_and_its_arguments(host: Host) -> None:
    model = make_model(host.root / "model")
    make_tree(host.root / "tree")
    args = ("--args", "--max-num-seqs 4", "--env", "OMP_NUM_THREADS=2")
    made = host.json("pack", host.root / "tree", "--model", model, *args, "-o", host.root / "b")
    assert made["key"] == host.json("fingerprint", model, *args)["key"]
    assert made["key"] != host.json("fingerprint", model)["key"]


def test_fingerprint_and_explain(host: Host) -> None:
    model, one, two = make_model(host.root / "model"), host.root / "one.json", host.root / "two.json"
    out, _ = host.run("fingerprint", model)
    key, *inputs = out.splitlines()
    assert '  model.config.architectures ["FakeForCausalLM"]' in inputs
    out, err = host.run("fingerprint", model, "-o", one)
    assert out == f"{key}\n"
    assert err.endswith("inputs\n")
    host.run("fingerprint", model, "--args", "--max-num-seqs=16", "-o", two)
    assert host.run("explain", one, one)[0] == f"nothing differs: both have key {key}\n"
    assert host.run("explain", one, two)[0] == "--max-num-seqs (default) ≠ 16: sizes of compiled batches\n"
    told = host.json("explain", one, two)
    assert (told["same"], [each["input"] for each in told["differences"]]) == (False, ["argument.max_num_seqs"])


def test_explain_by_file_by_store_and_by_a_key_of_the_shelf(host: Host, far: Path) -> None:
    bundle, other = host.pack("a.bundle"), host.pack("b.bundle", OTHER)
    host.run("push", host.store, bundle, other)
    host.run("push", far, other)
    wanted = "--max-num-seqs (default) ≠ 16: sizes of compiled batches\n"
    for first in (bundle, FINGERPRINT.key[:8], f"#{FINGERPRINT.key[:3]}", host.root / f"{FINGERPRINT.key[:8]}.json"):
        for second in (other, OTHER.key, f"file://{far}#", f"{far}#{OTHER.key[:1]}"):
            assert host.run("explain", first, second)[0] == wanted


def test_push_ls_pull_to_another_host(host: Host, far: Path) -> None:
    host.run("push", host.store, host.pack("a.bundle"), host.pack("b.bundle", OTHER))
    moved = host.json("push", far)
    assert sorted(each["key"] for each in moved) == sorted([FINGERPRINT.key, OTHER.key])
    assert {each["there_already"] for each in moved} == {False}
    assert {each["there_already"] for each in host.json("push", far)} == {True}

    other = Host(host.root, "other")
    _, err = other.run("pull", far, code=1)
    assert err == ""
    assert other.json("ls") == [], "nothing of a key that nobody trusts"
    key = host.state / "engines" / ".shelf" / "signing-key.pem.pub"
    (told,) = other.json("pull", far, OTHER.key[:9], "--trust-key", key)
    assert (told["moved"], told["key"]) == (True, OTHER.key)
    (row,) = other.json("ls", "--trust-key", key)
    assert (row["key"], row["arguments"], row["vllm"]) == (OTHER.key, "max_num_seqs=16", row["vllm"])
    assert (row["compile_s"], row["signer"], row["signed_by"]) == (21.5, str(key), PublicKey.load(key).id)
    assert row["quarantined"] is None


def test_what_a_pull_does_not_trust_is_named(host: Host, far: Path) -> None:
    host.run("push", far, host.pack("a.bundle"))
    other = Host(host.root, "other")
    (told,) = other.json("pull", far, code=1)
    assert (told["moved"], "which the trust policy does not name" in told["error"]) == (False, True)
    out, _ = other.run("verify", far, code=1)
    assert out.startswith("refused  ")
    (told,) = other.json("verify", far, code=1)
    assert (told["good"], told["cause"]) == (False, "untrusted")


def test_one_that_is_refused_keeps_no_other_from_going(host: Host, far: Path) -> None:
    good, bad = host.pack("a.bundle"), host.pack("b.bundle", OTHER)
    bad.write_bytes(bad.read_bytes()[:-1])
    out, _ = host.run("push", far, bad, good, code=1)
    assert [line.split()[0] for line in out.splitlines()] == ["refused", "done"]
    assert [row["key"] for row in host.json("ls", far)] == [FINGERPRINT.key]


def test_ls_for_people(host: Host, far: Path) -> None:
    _, err = host.run("ls")
    assert err == f"no bundle in {host.store}\n"
    host.run("push", host.store, host.pack("a.bundle"))
    head, row = host.run("ls")[0].splitlines()
    assert head.split() == ["key", "digest", "age", "size", "model", "arguments", "vllm", "signed", "by", "saves"]
    assert row.startswith(FINGERPRINT.key[:12])
    assert row.endswith("this host  21.5 s")
    digest = host.json("ls")[0]["digest"]
    Quarantine(host.store.parent / "quarantine.json").add(digest, "it crashed", datetime.now(UTC))
    assert host.run("ls")[0].splitlines()[1].endswith("quarantined")
    assert host.json("ls")[0]["quarantined"] == "it crashed"
    host.refused("push", far)  # what is put aside here is not given to others, unless it is named
    host.run("push", far, FINGERPRINT.key)


def test_a_store_cannot_draw_on_the_terminal(host: Host, far: Path) -> None:
    host.run("push", far, host.pack("a.bundle"))
    (record,) = far.glob(f"bundles/*/{host.json('ls', far)[0]['digest']}.json")
    told = json.loads(record.read_text())
    told["metadata"] = {"model": "x\x1b[2J\ny", "arguments": "\r", "compile_s": "much", "signed_by": "\x1b]0;"}
    record.write_text(json.dumps(told))
    out, _ = host.run("ls", far)
    assert "\x1b" not in out
    assert "\r" not in out
    assert len(out.splitlines()) == 2


def test_quarantine(host: Host) -> None:
    assert host.run("quarantine", "ls")[1] == "no bundle is quarantined here\n"
    held = Quarantine(host.store.parent / "quarantine.json")
    now = datetime.now(UTC)
    for number, digest in enumerate(("ab" + "0" * 62, "ab" + "1" * 62, "cd" + "0" * 62)):
        held.add(digest, f"died \x1b of it {number}", now - timedelta(days=2))
    out, _ = host.run("quarantine", "ls")
    assert len(out.splitlines()) == 4
    assert "\x1b" not in out
    assert [set(each) for each in host.json("quarantine", "ls")] == [{"digest", "at", "until", "why"}] * 3
    assert "2 quarantined digests begin so: give more digits" in host.refused("quarantine", "release", "cd0", "ab")
    assert len(held.rows(now)) == 3, "none of them is released"
    assert "no such digest is quarantined" in host.refused("quarantine", "release", "ef")
    assert host.run("quarantine", "release", "cd")[0] == "cd0000000000 may be restored again\n"
    assert {row.digest[:2] for row in held.rows(now)} == {"ab"}
    host.run("quarantine", "release", code=2)
    host.run("quarantine", "release", "--all")
    assert held.rows(now) == ()


def test_keygen_and_its_policy(host: Host) -> None:
    out, _ = host.run("keygen", host.root / "release.key")
    assert stat.S_IMODE((host.root / "release.key").stat().st_mode) == 0o600
    policy = host.root / "trust.yaml"
    policy.write_text(out.partition("\n\n")[2])
    (key,) = yaml.safe_load(policy.read_text())["keys"]
    assert key["name"] == "release"
    bundle = host.pack("a.bundle", FINGERPRINT, "--key", host.root / "release.key")
    assert "which the trust policy does not name" in Host(host.root, "other").run("verify", bundle, code=1)[0]
    assert host.run("verify", bundle, "--trust", policy)[0].endswith("signed by release\n")
    assert "exists already; nothing was written" in host.refused("keygen", host.root / "release.key")
    told = host.json("keygen", host.root / "second")
    assert told["id"] == PublicKey.load(host.root / "second.pub").id


def test_countersign(host: Host) -> None:
    host.run("keygen", host.root / "release.key")
    bundle, out = host.pack("a.bundle"), host.root / "release.bundle"
    host.run("countersign", bundle, "--key", host.root / "release.key", "-o", out)
    other = Host(host.root, "other")
    assert "good" in other.run("verify", out, "--trust-key", host.root / "release.key.pub")[0]
    assert "does not name" in other.refused("countersign", bundle, "-o", host.root / "x")
    assert not (host.root / "x").exists()


def test_gc_says_first_and_deletes_when_told(host: Host, far: Path) -> None:
    for number in range(3):
        host.run("push", far, host.pack(f"{number}.bundle", FINGERPRINT, "--compile-s", str(number)))
    out, _ = host.run("gc", far, "--keep", "1")
    assert out.endswith("2 of 3 bundles would go, 4.4 KiB; --yes deletes them\n") or "2 of 3 bundles would go" in out
    assert len(host.json("ls", far)) == 3
    told = host.json("gc", far, "--keep", "1", "--yes")
    assert (told["deleted"], len(told["bundles"]), told["kept"]) == (True, 2, 1)
    assert [row["compile_s"] for row in host.json("ls", far)] == [2.0]
    assert host.json("gc", far, "--max-size", "0B")["kept"] == 0
    assert host.json("gc", far, "--older-than", "30d")["kept"] == 1
    for words in (
        *(("--max-size", "many"), ("--max-size", "-1"), ("--older-than", "soon"), ("--older-than", "-3d")),
        *(("--older-than", "nand"), ("--older-than", "infd"), ("--keep", "0")),
    ):
        host.run("gc", far, *words, code=2)


def test_a_damaged_store_is_found_out(host: Host, far: Path) -> None:
    host.run("push", far, host.pack("a.bundle"), host.pack("b.bundle", OTHER))
    (file,) = far.glob(f"bundles/{OTHER.key}/*.bundle")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    told = {each.get("key"): each for each in host.json("verify", far, code=1)}
    assert told[FINGERPRINT.key]["good"]
    assert told[None]["cause"] == "corrupt"


def test_restore_refuses(host: Host) -> None:
    bundle, into = host.pack("a.bundle"), host.root / "into"
    assert "fingerprint" in host.refused("restore", bundle, into, "--for", OTHER.key)
    assert not into.exists()
    into.mkdir()
    (into / "mine").write_text("kept")
    assert "something is there already" in host.refused("restore", bundle, into)
    assert (into / "mine").read_text() == "kept"
    host.run("restore", bundle, into, "--replace")
    assert read_tree(into) == FILES


def test_what_cannot_be(host: Host, far: Path) -> None:
    """Each error is one line that names the place and the fix."""
    bundle, rubbish = host.pack("a.bundle"), host.root / "rubbish.json"
    rubbish.write_text('{"schema": 1, "key": "no", "inputs": {}}')
    host.run("push", far, bundle)
    assert "no such file: name a file, STORE#KEY" in host.refused("verify", host.root / "nowhere.bundle")
    assert "its key is not that of its inputs" in host.refused("explain", rubbish, rubbish)
    rubbish.write_bytes(b"\x00\xff rubbish")
    assert "is no fingerprint: it is not JSON" in host.refused("explain", rubbish, bundle)
    assert "no host has a shelf here yet" in Host(host.root, "new").refused("explain", "ffffff", bundle)
    assert "no host has a shelf here yet" in Host(host.root, "new").refused("push", far)
    assert "no bundle with such a key" in host.refused("explain", f"{far}#ffffff", bundle)
    assert "is no key" in host.refused("restore", f"{far}#XYZ", host.root / "into")
    assert "is no store: use baked:" in host.refused("ls", "ftp://far/away")
    assert "no such directory; mount the volume" in host.refused("ls", host.root / "unmounted")
    assert "credentials in a URL end up in logs" in host.refused("push", "s3://me:secret@bucket/x", bundle)
    assert "name an ed25519 key in PEM form" in host.refused("ls", "--trust-key", rubbish)
    assert "correct the trust policy" in host.refused("ls", "--trust", host.root / "no.yaml")
    assert "no such model directory" in host.refused("fingerprint", host.root / "no-model")
    model = make_model(host.root / "model")
    assert "is set by the launcher (--port): remove it" in host.refused("fingerprint", model, "--args", "--port 1")
    assert "may not be set for an engine" in host.refused("fingerprint", model, "--env", "PATH=/x")
    assert "no such directory: name an engine's cache root" in host.refused(
        "pack", host.root / "no", "--model", model, "-o", host.root / "b"
    )
    assert "there is nothing to pack in it" in host.refused("pack", model, "--model", model, "-o", host.root / "b")
    assert "writes one" in host.refused("pack", model, "--fingerprint", host.root / "no", "-o", host.root / "b")
    host.run("pack", model, code=2)
    host.run("fingerprint", model, "--args", "'", code=2)
    host.run("fingerprint", model, "--env", "novalue", code=2)
    host.run("push", "", bundle, code=2)
    assert not (host.root / "b").exists()


def test_a_key_prefix_of_two_bundles_is_refused(host: Host, far: Path) -> None:
    host.run("push", far, host.pack("a.bundle"), host.pack("b.bundle", OTHER))
    err = host.refused("restore", f"{far}#", host.root / "into")
    assert "2 keys begin so" in err
    assert FINGERPRINT.key[:12] in err


def test_help_imports_nothing_slow() -> None:
    code = (
        "import sys, runtime.cache.cli; "
        "print([n for n in ('pydantic', 'cryptography', 'zstandard', 'asyncio', 'yaml') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_it_runs_as_a_module_and_by_name() -> None:
    for command in ([sys.executable, "-m", "runtime.cache.cli"], [sys.executable, "-m", "activator_ext", "cache"]):
        out = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout
        for name in ("fingerprint", "explain", "build", "pack", "restore", "verify", "ls", "gc", "push", "pull"):
            assert f"\n  {name} " in out
        assert "..." not in out.replace("[ARGS]...", ""), "each summary fits"
