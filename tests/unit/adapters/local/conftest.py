"""One directory of files per test."""

from pathlib import Path

import pytest

from tests.unit.adapters.local.build import Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)
