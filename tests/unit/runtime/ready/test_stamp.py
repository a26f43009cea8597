"""Has a model's directory changed?"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.ready.stamp import model_stamp
from tests.fakes.model import make_model


def rewrite(model: Path) -> None:
    (model / "config.json").write_text("{}")


def touch(model: Path) -> None:
    os.utime(model / "model.safetensors", (1, 1))


def add(model: Path) -> None:
    (model / "deep").mkdir()
    (model / "deep" / "more.json").write_text("{}")


def remove(model: Path) -> None:
    (model / "tokenizer.json").unlink()


@pytest.mark.parametrize("change", [rewrite, touch, add, remove])
def test_each_change_is_seen(tmp_path: Path, change: Callable[[Path], None]) -> None:
    model = make_model(tmp_path / "model")
    before = model_stamp(str(model))
    assert model_stamp(str(model)) == before
    change(model)
    assert model_stamp(str(model)) not in (before, None)


def test_a_directory_that_comes(tmp_path: Path) -> None:
    assert model_stamp(str(tmp_path / "model")) is None
    (tmp_path / "model").mkdir()
    assert model_stamp(str(tmp_path / "model")) is not None


def test_a_broken_link_is_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "weights").symlink_to(tmp_path / "gone")
    assert model_stamp(str(tmp_path)) is not None


def test_a_url_has_none() -> None:
    assert model_stamp("s3://bucket/model") is None
