"""Fixtures of the tests against a real control plane.

`plane`: the one of KUBECONFIG, else a testbed booted once for the run (PILOTLIGHT_TESTBED names its directory, root).
`own_plane`: always a booted testbed, whose parts the test may stop. `namespace`: one of the test's own, deleted after.
"""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import HOW, ControlPlane, booted, given, testbed_command

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cluster: needs a real control plane (PILOTLIGHT_TESTBED or KUBECONFIG)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with Knative Serving, KServe and KEDA; its parts keep running."""
    known = given()
    if known is not None:
        yield known
        return
    if testbed_command() is None:
        pytest.skip(HOW)
    with booted(tmp_path_factory.mktemp("plane"), "--nodes", "2", "--with", "keda") as own:
        yield own


@pytest.fixture(scope="module")
def own_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A testbed of this module's own, without KEDA: `own_plane.testbed("restart", "apiserver")` and the like."""
    if testbed_command() is None:
        pytest.skip("stops parts of its control plane: set PILOTLIGHT_TESTBED to a testbed's directory (root needed)")
    with booted(tmp_path_factory.mktemp("own-plane"), "--nodes", "1") as own:
        yield own


@pytest.fixture
def namespace(plane: ControlPlane) -> Iterator[str]:
    """A namespace of this test's own on `plane`."""
    name = f"test-{secrets.token_hex(4)}"
    plane.kubectl("create", "namespace", name)
    yield name
    plane.kubectl("delete", "namespace", name, "--wait=false")
