"""Challenges of registries, and the login files of this user."""

import base64
import json
from pathlib import Path

import pytest

from runtime.cache.stores.base import StoreCause, StoreFault
from runtime.cache.stores.oci_auth import Challenge, Login, challenge_of, login_files, login_for


@pytest.mark.parametrize(
    ("header", "challenge"),
    [
        ('Basic realm="here"', Challenge("basic", {"realm": "here"})),
        (
            'Bearer realm="https://auth.example/token",service="r",scope="repository:a/b:pull,push"',
            Challenge(
                "bearer",
                {"realm": "https://auth.example/token", "service": "r", "scope": "repository:a/b:pull,push"},
            ),
        ),
        ("bearer Realm=https://x", Challenge("bearer", {"realm": "https://x"})),
        ("Negotiate", None),
        ("", None),
    ],
)
def test_a_challenge_is_read(header: str, challenge: Challenge | None) -> None:
    assert challenge_of(header) == challenge


def write(path: Path, config: object) -> dict[str, str]:
    path.write_text(json.dumps(config))
    return {"REGISTRY_AUTH_FILE": str(path), "HOME": str(path.parent)}


def auth(login: str) -> dict[str, str]:
    return {"auth": base64.b64encode(login.encode()).decode()}


def test_the_most_particular_entry_is_taken(tmp_path: Path) -> None:
    environ = write(
        tmp_path / "a.json",
        {"auths": {"r:5000": auth("all:1"), "r:5000/team/chat": auth("chat:2:3"), "https://q/v1/": auth("old:4")}},
    )
    assert login_for("r:5000", "team/chat/caches", environ) == Login("chat", "2:3")
    assert login_for("r:5000", "team/other", environ) == Login("all", "1")
    assert login_for("q", "x", environ) == Login("old", "4")
    assert login_for("elsewhere", "x", environ) is None


def test_name_and_password_in_plain_are_taken(tmp_path: Path) -> None:
    environ = write(tmp_path / "a.json", {"auths": {"r": {"username": "u", "password": "p"}}})
    assert login_for("r", "x", environ) == Login("u", "p")


def test_no_file_is_no_login(tmp_path: Path) -> None:
    assert login_for("r", "x", {"HOME": str(tmp_path)}) is None


def test_files_are_looked_for_where_logins_leave_them() -> None:
    environ = {"REGISTRY_AUTH_FILE": "/a", "XDG_RUNTIME_DIR": "/run/1", "HOME": "/h"}
    assert [str(path) for path in login_files(environ)] == [
        "/a",
        "/run/1/containers/auth.json",
        "/h/.docker/config.json",
    ]
    assert [str(path) for path in login_files({"DOCKER_CONFIG": "/d"})] == ["/d/config.json"]


@pytest.mark.parametrize(
    "config",
    [
        {"auths": {"r": {"auth": "%"}}},
        {"auths": {"r": auth("no-colon")}},
        {"auths": {"r": {"username": "u"}}},
        {"auths": {"r": "x"}},
        {"credsStore": "desktop"},
        {"credHelpers": {"r": "ecr-login"}},
    ],
)
def test_a_login_that_cannot_be_used_is_said(tmp_path: Path, config: object) -> None:
    with pytest.raises(StoreFault, match=r"a\.json: .*log in") as caught:
        login_for("r", "x", write(tmp_path / "a.json", config))
    assert caught.value.cause is StoreCause.DENIED


def test_a_file_that_is_none_is_said(tmp_path: Path) -> None:
    environ = write(tmp_path / "a.json", {})
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(StoreFault, match="as `docker login` writes it"):
        login_for("r", "x", environ)
    (tmp_path / "a.json").write_text("[]")
    assert login_for("r", "x", environ) is None


def test_a_password_is_never_shown() -> None:
    assert "hush" not in repr(Login("u", "hush"))
