"""URLs of stores, and the order of asking."""

from pathlib import Path

import pytest

from runtime.cache.stores.baked import ROOT
from runtime.cache.stores.base import BadStoreUrl
from runtime.cache.stores.open import open_store, open_stores


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("/caches", "file:///caches"),
        ("file:///a%20b", "file:///a b"),
        ("file://localhost/caches", "file:///caches"),
        ("baked:", f"baked://{ROOT}"),
        ("baked:///elsewhere", "baked:///elsewhere"),
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("gs://bucket/a", "gs://bucket/a"),
        ("az://container/a", "az://container/a"),
        ("oci://registry.example:5000/team/caches", "oci://registry.example:5000/team/caches"),
        ("oci+http://localhost:5000/x/", "oci+http://localhost:5000/x"),
    ],
)
async def test_each_kind_is_known(url: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    store = open_store(url)
    assert store.place == place
    await store.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "caches",
        "file://host/caches",
        "file:caches",
        "/a/../b",
        "ftp://host/a",
        "https://host/a",
        "baked://host",
        "oci://registry.example",
        "s3://",
    ],
)
def test_what_is_no_store_is_refused(url: str) -> None:
    with pytest.raises(BadStoreUrl):
        open_store(url)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    with pytest.raises(BadStoreUrl, match="s3://…@bucket/a: credentials") as caught:
        open_store("s3://name:hush@bucket/a")
    assert "hush" not in str(caught.value)


async def test_the_nearest_is_asked_first_and_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    stores = open_stores(["oci://r.example/x", "s3://b", "/two", "baked:", "/one", "s3://b"])
    assert [store.place for store in stores] == [
        f"baked://{ROOT}",
        "file:///two",
        "file:///one",
        "oci://r.example/x",
        "s3://b",
    ]
    for store in stores:
        await store.close()
