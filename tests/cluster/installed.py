"""Fixtures for tests of our objects: the CRDs installed once for a module, and a client for each test."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from activator_ext.adapters.kubernetes.client import Client
from tests.cluster.bad_objects import ready_api
from tests.cluster.control_plane import ControlPlane


@pytest.fixture(scope="module")
def installed(plane: ControlPlane) -> None:
    async def install() -> None:
        async with await Client.connect(plane.kubeconfig) as connected:
            await ready_api(connected)

    asyncio.run(install())


@pytest.fixture
async def client(plane: ControlPlane, installed: None) -> AsyncIterator[Client]:
    async with await Client.connect(plane.kubeconfig) as connected:
        yield connected
