import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import compile_path

from runtime.ready.gate_routes import ANYONE, CLIENTS, HOST, Audience, audience_of, route_path

OPEN = (Audience.CLIENTS, Audience.ANYONE)


def test_the_lists_share_nothing() -> None:
    assert not CLIENTS & HOST
    assert not CLIENTS & ANYONE
    assert not ANYONE & HOST


@pytest.mark.parametrize("path", sorted(CLIENTS))
def test_clients(path: str) -> None:
    assert audience_of(path) is Audience.CLIENTS
    assert audience_of(path + "/") is Audience.CLIENTS


@pytest.mark.parametrize("path", ["/v1/responses/resp_1", "/v1/responses/resp_1/cancel", "/v1/responses/a%2e/"])
def test_client_templates(path: str) -> None:
    assert audience_of(path) is Audience.CLIENTS


@pytest.mark.parametrize("path", [*sorted(HOST), "/sleep/", "/adapters/a/b", "/static/x.js"])
def test_host(path: str) -> None:
    assert audience_of(path) is Audience.HOST


TRICKS = [
    *("", "/", "//sleep", "/sleep//", "/SLEEP", "/v1/../sleep", "/v1/models/../../sleep", "/v1/models//", "sleep"),
    *("/v1/models\n", "\n/v1/models", "/v1/models\x00", "/v1/models;x", "/v1/models%2f", "/v1/models/extra"),
    *(
        "/V1/Models/",
        "/metrics/x",
        "/metricsx",
        "/healthz",
        "/v1/responses/a/b",
        "/v1/responses//cancel",
        "/v1/responses/a\n/cancel/x",
    ),
]


@pytest.mark.parametrize("path", TRICKS)
def test_near_misses_are_not_open(path: str) -> None:
    assert audience_of(path) not in OPEN


@given(st.text(alphabet="/.%abelpsv1moders2fSLEP\n\x00", max_size=30), st.sampled_from(sorted(HOST)))
def test_no_path_that_reaches_a_host_route_is_open(path: str, route: str) -> None:
    """Judged against the router's own patterns: the gate opens nothing that a shut route would match."""
    pattern, _, _ = compile_path(route)
    for asked in (path, f"/{path}", route + path, path + route):
        if pattern.match(asked):
            assert audience_of(asked) not in OPEN


@pytest.mark.parametrize(
    ("path", "root", "routed"),
    [
        ("/v1/models", "", "/v1/models"),
        ("/api/sleep", "/api", "/sleep"),
        ("/apisleep", "/api", "/apisleep"),
        ("/api", "/api", ""),
        ("/sleep", "/api", "/sleep"),
        ("/v1/models/sleep", "/v1/models", "/sleep"),
        ("/api/api/sleep", "/api", "/api/sleep"),
    ],
)
def test_below_a_root_path(path: str, root: str, routed: str) -> None:
    assert route_path(path, root) == routed


@given(st.text(alphabet="/ab", max_size=8), st.text(alphabet="/ab", max_size=4))
def test_it_cuts_as_the_router_does(path: str, root: str) -> None:
    from starlette._utils import get_route_path  # noqa: PLC0415  (its private name: only this test asks it)

    assert route_path(path, root) == get_route_path({"type": "http", "path": path, "root_path": root})
