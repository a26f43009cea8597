import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.ready import gate_mount
from runtime.ready.gate_control import GateControl
from runtime.ready.gate_credential import GATE_ENV, HeldCredential, given_credential, new_credential

CREDENTIAL = "c" * 43
LOAD = """
import importlib, inspect, os
module = importlib.import_module("runtime.ready.gate_mount")
{before}
loaded = getattr(module, "MountedGate")
assert inspect.isclass(loaded)
print(loaded(None).door.state)
"""
"""As vLLM does it; `before` is done between the import and the look-up."""


def test_from_the_launcher_to_the_gate() -> None:
    held = HeldCredential()
    path = Path(held.path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not os.get_inheritable(int(path.name)), "an engine has it by its path, not by a descriptor"
    for _ in range(2):
        assert given_credential({GATE_ENV: held.path}) == held.value
    assert held.value not in repr(held)
    named = held.path
    held.close()
    held.close()
    with pytest.raises(ValueError, match="cannot be read"):
        given_credential({GATE_ENV: named})
    assert len({new_credential() for _ in range(100)}) == 100


def test_another_process_of_the_same_user_reads_it() -> None:
    held = HeldCredential()
    read = "import sys; print(open(sys.argv[1]).read())"
    argv = [sys.executable, "-c", read, held.path]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip() == held.value
    held.close()


@pytest.mark.parametrize("environ", [{}, {GATE_ENV: ""}])
def test_no_host(environ: dict[str, str]) -> None:
    assert given_credential(environ) is None


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (None, 0, "cannot be read"),
        (CREDENTIAL.encode(), 0o644, r"open to others \(mode 0644\)"),
        (CREDENTIAL.encode(), 0o620, r"open to others \(mode 0620\)"),
        (b"", 0o600, "holds no credential"),
        (b"short", 0o600, "holds no credential"),
        (b"\xff" * 43, 0o600, "cannot be read"),
        ("ü".encode() * 43, 0o600, "holds no credential"),
        (b"c" * 20 + b"\n" + b"c" * 20, 0o600, "holds no credential"),
    ],
)
def test_an_unusable_file(tmp_path: Path, content: bytes | None, mode: int, words: str) -> None:
    path = tmp_path / "credential"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    with pytest.raises(ValueError, match=words) as caught:
        given_credential({GATE_ENV: str(path)})
    assert "c" * 20 not in str(caught.value)
    assert GATE_ENV in str(caught.value)


def test_an_engine_whose_credential_is_missing_ends_before_it_listens(tmp_path: Path) -> None:
    """vLLM asks for the middleware before it listens: the error is the engine's end, not a gate that stands open."""
    found = subprocess.run(
        [sys.executable, "-c", LOAD.format(before="")],
        env={**os.environ, GATE_ENV: str(tmp_path / "missing")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1
    assert "write the engine's credential there with mode 0600" in found.stderr


def test_a_process_that_imported_it_before_it_was_an_engine_is_closed_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "credential").write_text(CREDENTIAL)
    (tmp_path / "credential").chmod(0o600)
    forked = f"os.environ[{GATE_ENV!r}] = {str(tmp_path / 'credential')!r}"
    for before, state in (("", "minimum"), (forked, "starting")):
        argv = [sys.executable, "-c", LOAD.format(before=before)]
        environ = {name: value for name, value in os.environ.items() if name != GATE_ENV}
        found = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)
        assert found.stdout.strip() == state


def test_nothing_else_is_in_the_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        gate_mount.Other  # noqa: B018  (asking is the test)


def test_the_gate_costs_the_engine_no_imports() -> None:
    script = (
        "import sys, runtime.ready.gate_mount; print([m for m in ('pydantic','httpx','aiohttp') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_hosts_side_does_not_show_it() -> None:
    assert CREDENTIAL not in repr(GateControl("http://127.0.0.1:1", CREDENTIAL))
