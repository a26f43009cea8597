"""Which service a request means, and how snapshots and deltas make the table."""

import pytest

from activator_ext.portal.table import AmbiguousName, Table, UnknownName, VersionGap
from runtime.contract import Route, RouteDelta, RouteTable
from tests.unit.portal.fakes import route


def table(*routes: Route, version: int = 7) -> Table:
    return Table.of(RouteTable(version=version, routes=routes))


HOUSE = table(
    route("team-a/chat", names=("team-a/chat", "chat", "gpt-x", "shared")),
    route("team-b/embed", names=("team-b/embed", "embed", "shared")),
    route("team-a/twin", names=("team-a/twin",)),
    route("team-b/twin", names=("team-b/twin",)),
    route("team-c/other", names=("team-c/other", "other", "embed")),
)


@pytest.mark.parametrize(
    ("name", "service"),
    [
        pytest.param("team-a/chat", "team-a/chat", id="full name"),
        pytest.param("chat", "team-a/chat", id="unique name"),
        pytest.param("gpt-x", "team-a/chat", id="unique served name"),
        pytest.param("embed", "team-b/embed", id="a name goes before another's served name"),
        pytest.param("team-b/twin", "team-b/twin", id="full name of one of two twins"),
    ],
)
def test_a_model_names_one_service(name: str, service: str) -> None:
    assert HOUSE.by_model(name).service == service


@pytest.mark.parametrize(
    ("name", "services"),
    [
        pytest.param("shared", ("team-a/chat", "team-b/embed"), id="served name of two"),
        pytest.param("twin", ("team-a/twin", "team-b/twin"), id="name of two, left out by the controller"),
    ],
)
def test_a_name_of_several_is_ambiguous(name: str, services: tuple[str, ...]) -> None:
    with pytest.raises(AmbiguousName) as several:
        HOUSE.by_model(name)
    assert several.value.services == services


@pytest.mark.parametrize("name", ["nobody", "", "team-a/", "CHAT"])
def test_any_other_name_is_unknown(name: str) -> None:
    with pytest.raises(UnknownName):
        HOUSE.by_model(name)


@pytest.mark.parametrize(
    ("host", "service"),
    [
        ("chat.team-a", "team-a/chat"),
        ("chat.team-a.example.com:8080", "team-a/chat"),
        ("CHAT.Team-A.example.com", "team-a/chat"),
        ("nobody.team-a.example.com", None),
        ("localhost:8080", None),
        ("127.0.0.1:8080", None),
        ("[::1]:8080", None),
        ("", None),
    ],
)
def test_a_host_names_a_service_by_its_first_two_labels(host: str, service: str | None) -> None:
    found = HOUSE.by_host(host.encode())
    assert (found.service if found else None) == service


def test_a_delta_changes_adds_and_removes() -> None:
    delta = RouteDelta(
        version=8, changed=(route("team-a/chat", "http://e"), route("new/one")), removed=("team-b/embed", "not/there")
    )
    after = HOUSE.after(delta)
    assert after.version == 8
    assert after.by_model("chat").endpoints[0].url == "http://e"
    assert after.by_model("one").service == "new/one"
    assert "team-b/embed" not in after.routes
    assert HOUSE.by_model("chat").endpoints == (), "the table before stays as it was"


@pytest.mark.parametrize("version", [6, 7, 9])
def test_a_delta_that_does_not_follow_is_a_gap(version: int) -> None:
    with pytest.raises(VersionGap):
        HOUSE.after(RouteDelta(version=version))


def test_a_delta_without_a_table_is_a_gap() -> None:
    with pytest.raises(VersionGap):
        Table().after(RouteDelta(version=1))


def test_names_that_mean_another_are_not_listed() -> None:
    assert HOUSE.names_of(HOUSE.routes["team-a/chat"]) == ["team-a/chat", "chat", "gpt-x"]
    assert HOUSE.names_of(HOUSE.routes["team-c/other"]) == ["team-c/other", "other"]


def test_known_names_are_bounded() -> None:
    many = table(*(route(f"ns/m{n:03}") for n in range(50)))
    assert many.known_names(most=2) == "ns/m000, ns/m001 and 48 more"
    assert Table().known_names() == "none"
