"""The bench's own programs, compiled once, and the null backend running."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal import subjects
from portal.build import Programs, build
from portal.machine import Cores
from portal.subjects import Subject

CPU = min(os.sched_getaffinity(0))
CORES = Cores(proxy=CPU, load=CPU)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return build(tmp_path_factory.mktemp("programs"))


@pytest.fixture
def cores() -> Cores:
    return CORES


@pytest.fixture
def direct(programs: Programs, tmp_path: Path) -> Iterator[Subject]:
    with subjects.direct(programs.backend, tmp_path, CORES) as subject:
        yield subject
