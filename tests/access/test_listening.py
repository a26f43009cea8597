"""Nothing listens beyond loopback, and no other user may connect to a socket of ours."""

import pytest

from activator_ext.app.servers import AddressTaken, loopback
from activator_ext.portal.process import parse
from tests.access.exposure import beyond_loopback, open_to_others, tcp_listeners, unix_sockets
from tests.serving import Up


def test_every_process_listens_on_loopback_only(up: Up) -> None:
    assert up.ask("chat").status_code == 200
    # portal, API, the host's receiver of spans, the engine: less would mean that we have not looked at all.
    assert len(tcp_listeners(up)) >= 4
    assert beyond_loopback(up) == set()


def test_no_other_user_may_connect_to_a_socket(up: Up) -> None:
    assert up.ask("chat").status_code == 200
    sockets = set(unix_sockets(up))
    assert {path.name for path in sockets} >= {"host.sock", "portal.sock", "controller.sock"}
    assert [path for path in sockets if open_to_others(path, up.state)] == []
    assert [oct(path.stat().st_mode & 0o777) for path in sockets if path.parent == up.state] == ["0o600"] * 3


@pytest.mark.parametrize(
    "address", ["0.0.0.0:0", "[::]:0", ":::0", "10.0.0.1:0", "127.0.0.1.evil.example:0", "*:0", "127.1:0", "0:0"]
)
def test_no_option_makes_it_listen_elsewhere(address: str) -> None:
    with pytest.raises(AddressTaken, match="listens on this machine only"):
        loopback(address, "--listen")
    with pytest.raises(SystemExit):
        parse(["--listen", address, "--controller", "c", "--admin", "a"])
