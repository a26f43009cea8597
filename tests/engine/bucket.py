"""A model in a bucket of a moto server on loopback, for tests with a real streamer."""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runtime.weights.object_store import Bucket

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
URL = "s3://models/m"


@contextmanager
def holding(model: Path) -> Iterator[dict[str, str]]:
    """`model` lies at URL; the environment that an engine needs to read it there."""
    server = pytest.importorskip("moto.server", reason="pip install 'moto[server]'")
    moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    try:
        endpoint = f"http://127.0.0.1:{moto.get_host_and_port()[1]}"
        request = urllib.request.Request(f"{endpoint}/models", method="PUT")  # noqa: S310  (loopback)
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  (loopback)
            assert answer.status == 200
        made = {**KEYS, "AWS_ENDPOINT_URL": endpoint}
        store: Any = Bucket(URL, made)._store
        for path in model.iterdir():
            store.put(path.name, path.read_bytes())
        yield made
    finally:
        moto.stop()
