"""One portal for all tests of this folder, and a place of its own in it for each."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.http.engine import Script, hello
from tests.http.house import House, Place, house, place


@pytest.fixture(scope="session")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A portal process as users have it, with no option of its own."""
    with house(tmp_path_factory.mktemp("portal")) as at:
        yield at


@pytest.fixture
def settle(portal: House) -> Iterator[Callable[..., Place]]:
    """Makes places: `settle(script, warm=…)`; all are left when the test ends."""
    with contextlib.ExitStack() as stack:

        def enter(script: Script = hello, **fields: Any) -> Place:
            entered: AbstractContextManager[Place] = place(portal, script, **fields)
            return stack.enter_context(entered)

        yield enter


@pytest.fixture
def here(settle: Callable[..., Place]) -> Place:
    """A warm place whose engine says hello."""
    return settle()
