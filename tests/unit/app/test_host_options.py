"""What `up` says to its host, and what a host says to what it cannot heed."""

import subprocess
import sys
from pathlib import Path

import pytest

from activator_ext.app.host_options import HostOptions, host_argv
from activator_ext.app.state_dir import StateDir


def test_without_options_the_host_is_told_none(tmp_path: Path) -> None:
    directory = StateDir(tmp_path)
    assert host_argv(directory, HostOptions(), None) == [
        *(sys.executable, "-m", "runtime.host", "--socket", str(directory.host_socket)),
        *("--root", str(directory.engines)),
    ]


def test_every_option_reaches_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = HostOptions(stores=("/a", "s3://b/c"), publish_to="-x", trust=Path("trust.yaml"), fork=False)
    argv = host_argv(StateDir(tmp_path), options, "fake")
    assert argv[7:] == [
        *("--store=/a", "--store=s3://b/c", "--publish-to=-x", f"--trust={tmp_path}/trust.yaml", "--no-fork"),
        *("--engine-command", "fake"),
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (HostOptions(stores=("ftp://x",)), "'ftp://x' is no store"),
        (HostOptions(publish_to="s3://user:secret@b/c"), "credentials in a URL"),
        (HostOptions(trust=Path("/nowhere.yaml")), "/nowhere.yaml"),
    ],
)
def test_a_host_names_what_it_cannot_heed_in_one_line(options: HostOptions, says: str, tmp_path: Path) -> None:
    directory = StateDir(tmp_path)
    directory.engines.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(host_argv(directory, options, None), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert "secret" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_images_are_taken_only_where_that_is_asked_for(tmp_path: Path) -> None:
    directory = StateDir(tmp_path)
    assert "--snapshot" not in host_argv(directory, HostOptions(), None)
    assert "--snapshot" in host_argv(directory, HostOptions(snapshot=True), None)
