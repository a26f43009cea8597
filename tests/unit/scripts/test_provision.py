"""Set-up: its checks and messages, when it starts over, when it is done at once. pip itself is not run here."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import provision
from scripts.progress import Progress
from scripts.provision import MARKER, STAMP, SetupError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    return tmp_path


def environment(root: Path, *, stamp: str | None = None, running: bool = False) -> Path:
    home = root / ".venv"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").touch()
    (home / "bin" / "pip").write_text(f"#!{home}/bin/python\n")
    provision._site_packages(home).mkdir(parents=True)
    if stamp is not None:
        (home / STAMP).write_text(stamp + "\n")
    if running:
        (home / MARKER).touch()
    return home


def test_a_second_run_is_done_at_once(root: Path) -> None:
    environment(root, stamp=provision.digest(root))

    assert "up to date" in provision.provision(root)


@pytest.mark.parametrize(
    ("stamp", "running", "current"),
    [("right", False, True), ("right", True, False), ("other", False, False), (None, False, False)],
    ids=["whole", "interrupted", "pyproject-changed", "made-by-hand"],
)
def test_when_an_environment_is_current(root: Path, stamp: str | None, running: bool, current: bool) -> None:
    home = environment(root, stamp=stamp, running=running)

    assert provision.is_current(home, "right") is current


def test_the_digest_follows_pyproject_and_nothing_else_of_the_tree(root: Path) -> None:
    first = provision.digest(root)
    (root / "anything.py").touch()
    assert provision.digest(root) == first

    (root / "pyproject.toml").write_text("[project]\nname = 'changed'\n")
    assert provision.digest(root) != first


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (lambda home: (home / MARKER).touch(), "interrupted"),
        (lambda home: provision._site_packages(home).rmdir(), "another Python"),
        (lambda home: (home / "bin" / "pip").write_text("#!/elsewhere/.venv/bin/python\n"), "moved here"),
        (lambda home: (home / "bin" / "pip").unlink(), "no pip"),
    ],
    ids=["interrupted", "another-python", "moved", "no-pip"],
)
def test_what_is_thrown_away(root: Path, broken: Callable[[Path], object], expected: str) -> None:
    home = environment(root)
    broken(home)

    assert expected in str(provision.unusable(home))


def test_a_sound_environment_is_topped_up(root: Path) -> None:
    assert provision.unusable(environment(root)) is None


def test_no_environment_yet_is_nothing_to_throw_away(root: Path) -> None:
    assert provision.unusable(root / ".venv") is None


def test_the_compiler_is_asked_for_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(SetupError, match=r"`g\+\+` is not on PATH.*apt-get install g\+\+.*CXX"):
        provision.check_machine(which=lambda name: None)

    monkeypatch.setenv("CXX", "clang++")
    with pytest.raises(SetupError, match=r"`clang\+\+` is not on PATH"):
        provision.check_machine(which=lambda name: None)
    provision.check_machine(which={"clang++": "/usr/bin/clang++"}.get)


def test_another_system_is_refused() -> None:
    with pytest.raises(SetupError, match="only Linux"):
        provision.check_machine(platform="darwin")


def test_missing_headers_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("scripts.provision.sysconfig.get_paths", lambda: {"include": str(tmp_path)})

    with pytest.raises(SetupError, match="python3-dev"):
        provision.check_machine(which=lambda name: name)


@pytest.mark.parametrize(("free_gib", "enough"), [(5.9, False), (6.0, True)])
def test_disk(tmp_path: Path, free_gib: float, enough: bool) -> None:
    if enough:
        provision.check_disk(tmp_path, free_bytes=int(free_gib * 2**30))
        return
    with pytest.raises(SetupError, match=r"5\.9 GiB free at .*, 6 GiB are needed"):
        provision.check_disk(tmp_path, free_bytes=int(free_gib * 2**30))


@pytest.mark.parametrize(
    ("log", "fix"),
    [
        ("ERROR: No matching distribution found for torch==2.13.0+cpu", "PILOTLIGHT_TORCH_INDEX"),
        ("ERROR: No matching distribution found for setuptools>=77", "pip config list"),
        ("OSError: [Errno 28] No space left on device", "Make room"),
        ("ReadTimeoutError: Read timed out.", "Check the network"),
        ("error: something else", "Read the log"),
    ],
)
def test_a_failed_install_names_its_fix(log: str, fix: str) -> None:
    assert fix in provision.explain(log)


def test_two_set_ups_at_once_are_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(provision, "ROOT", root)
    handle = os.open(root, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        assert provision.main() == 1
    finally:
        os.close(handle)

    assert "another set-up is running here" in capsys.readouterr().err


def test_an_interruption_is_told_and_leaves_no_lock(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(root: Path) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(provision, "ROOT", root)
    monkeypatch.setattr(provision, "provision", interrupted)

    assert [provision.main(), provision.main()] == [130, 130]
    assert "Run it again" in capsys.readouterr().err


def test_the_kserve_sdk_is_unpacked_beside_the_environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed, it would replace packages of the engine by older ones."""
    home = environment(root)
    ran: list[list[str]] = []

    def run_logged(command: list[str], *, log: Path, **_: object) -> int:
        ran.append(command)
        log.write_text("ERROR: No matching distribution found for kserve")
        return len(ran) - 1

    monkeypatch.setattr(provision, "run_logged", run_logged)
    provision._unpack_kserve_sdk(home, Progress(interactive=False))
    assert "--no-deps" in ran[0]
    assert ran[0][ran[0].index("--target") + 1] == str(home / provision.KSERVE_SDK)
    with pytest.raises(SetupError, match=r"could not unpack kserve==.*pip config list"):
        provision._unpack_kserve_sdk(home, Progress(interactive=False))
