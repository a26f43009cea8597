"""The state directory: owned by one, private, forgiving of damage."""

import json
import os
import stat
from pathlib import Path

import pytest

from activator_ext.app.servers import AddressTaken, bind_unix
from activator_ext.app.state_dir import StateDir, StateDirBusy


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    first = StateDir(tmp_path / "state")
    first.acquire()
    with pytest.raises(StateDirBusy, match=f"pid {os.getpid()}"):
        StateDir(tmp_path / "state").acquire()
    first.release()
    second = StateDir(tmp_path / "state")
    second.acquire()
    second.release()


def test_everything_in_it_is_private(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    state.acquire()
    state.token()
    state.publish(url="http://127.0.0.1:1", portal_url="http://127.0.0.1:2")
    assert stat.S_IMODE(state.root.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (state.token_file, state.api_file)} == {0o600}
    assert json.loads(state.api_file.read_text())["pid"] == os.getpid()
    state.release()
    assert not state.api_file.exists()


def test_a_path_too_long_for_a_socket_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateDirBusy, match="choose a shorter directory"):
        StateDir(tmp_path / ("x" * 100)).acquire()


def test_a_directory_that_others_may_open_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(StateDirBusy, match=r"mode 755.*chmod 700"):
        StateDir(tmp_path).acquire()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_file_in_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(StateDirBusy, match="Choose another with --state"):
        StateDir(tmp_path / "state").acquire()


def test_a_file_in_a_socket_s_place_is_named(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.portal_socket.write_text("")
    with pytest.raises(StateDirBusy, match=r"portal\.sock is in the way"):
        state.acquire()


@pytest.mark.parametrize(
    "damage",
    [b"", b"\n", b"\xff\xfe", b"short", b"x" * 15, b"two words of one line", b"a\nb\n" * 9, b"\0" * 40, b"x" * 600],
)
def test_a_damaged_token_is_made_anew_and_a_good_one_kept(tmp_path: Path, damage: bytes) -> None:
    state = StateDir(tmp_path)
    state.token_file.write_bytes(damage)
    token = state.token()
    assert len(token) >= 32
    assert StateDir(tmp_path).token() == token


def test_a_token_of_the_users_own_is_kept_and_closed_to_others(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.token_file.write_text("my-own-long-enough-token\n")
    state.token_file.chmod(0o644)
    assert state.token() == "my-own-long-enough-token"
    assert stat.S_IMODE(state.token_file.stat().st_mode) == 0o600


def test_what_cannot_be_a_token_or_a_socket_is_named(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.token_file.mkdir()
    with pytest.raises(StateDirBusy, match="Remove it"):
        state.token()
    state.controller_socket.mkdir()
    with pytest.raises(AddressTaken, match="Remove it"):
        bind_unix(state.controller_socket)
