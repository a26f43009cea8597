"""A store in an OCI registry: one repository, a bundle an artifact, the newest of a fingerprint a tag.

Layout: `oci_layout`. Deleting removes the manifest and its tags; the bytes go when the registry collects its garbage.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from runtime.cache.stores.base import (
    HEX64,
    BadStoreUrl,
    BundleRef,
    Progress,
    StoreCause,
    StoreFault,
    newest_of,
    proven_hex,
)
from runtime.cache.stores.files import proven_ref
from runtime.cache.stores.keep import Keep, to_delete
from runtime.cache.stores.oci_client import LOOPBACK, RegistryClient
from runtime.cache.stores.oci_layout import EMPTY, MANIFEST_TYPE, TAG, digest_string, from_manifest, tag_of, to_manifest
from runtime.cache.stores.oci_upload import upload_bytes, upload_file
from runtime.cache.stores.patience import Patience, bounded
from runtime.cache.stores.receive import receive
from runtime.cache.stores.several import ask_each

REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*", re.ASCII)
"""What a repository may be called (OCI distribution specification)."""
ANY_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}", re.ASCII)
ALLOW_HTTP = "PILOTLIGHT_OCI_ALLOW_HTTP"
PAGE = 500
MOST_PAGES = 1000


class OciStore:
    """Bundles in one repository of a registry."""

    def __init__(self, client: RegistryClient, place: str, *, patience: Patience | None = None) -> None:
        self._client = client
        self._place = place
        self._patience = patience or Patience()

    @classmethod
    def at(
        cls,
        url: str,
        *,
        patience: Patience | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> "OciStore":
        """The store at `oci://host[:port]/repository`, or `oci+http://…` without TLS. BadStoreUrl if it can be none."""
        parts = urlsplit(url)
        repository = parts.path.strip("/")
        if not parts.hostname or not REPOSITORY.fullmatch(repository) or parts.query or parts.fragment:
            raise BadStoreUrl(f"{url!r}: give it as oci://registry/repository, in lower case, without tag")
        plain = parts.scheme == "oci+http"
        told = os.environ.get(ALLOW_HTTP, "").lower() in ("1", "true")
        if plain and parts.hostname not in LOOPBACK and not told:
            raise BadStoreUrl(
                f"{url!r}: without TLS only to this machine; set {ALLOW_HTTP}=true to allow it all the same"
            )
        bounds = patience or Patience()
        client = RegistryClient(f"{'http' if plain else 'https'}://{parts.netloc}", repository, bounds, sleep=sleep)
        return cls(client, url.rstrip("/"), patience=bounds)

    @property
    def place(self) -> str:
        """Its URL."""
        return self._place

    async def newest(self, key: str) -> BundleRef | None:
        """By the tag; where it is missing or points at no bundle of `key`, by the bundles' own tags."""
        found = await self._tagged(proven_hex(key, "a bundle's key"))
        if found is not None and found[0].key == key:
            return found[0]
        return newest_of(await self.list(key))

    async def fetch(self, ref: BundleRef, into: Path, progress: Progress | None = None) -> None:
        """See Store."""
        url = self._client.url(f"blobs/sha256:{ref.digest}")
        await receive(
            lambda offset: self._client.read(url, offset),
            ref,
            into,
            place=self._place,
            patience=self._patience,
            progress=progress,
        )

    async def publish(self, key: str, file: Path, digest: str, metadata: Mapping[str, str] | None = None) -> BundleRef:
        """See Store."""
        ref = await proven_ref(key, file, digest, metadata)
        manifest = to_manifest(ref)
        async with bounded(self._patience.total_s, self._place, f"publishing {file.name}"):
            await self._refuse_other(ref)
            await upload_file(self._client, file, ref.size_bytes, f"sha256:{digest}")
            await upload_bytes(self._client, EMPTY, digest_string(EMPTY))
            await self._tag(tag_of(ref), manifest)
            await self._tag(key, manifest)
        return ref

    async def list(self, key: str | None = None) -> tuple[BundleRef, ...]:
        """See Store. A repository that nobody pushed to yet has none."""
        if key is not None:
            proven_hex(key, "a bundle's key")

        async def look(tag: str) -> BundleRef | None:
            found = await self._tagged(tag)
            return found[0] if found is not None and tag_of(found[0]) == tag else None

        async with bounded(self._patience.total_s, self._place, "listing it"):
            tags = [each for each in await self._tags() if (m := TAG.fullmatch(each)) and key in (None, m.group(1))]
            found = await ask_each(look, tags)
        return tuple(sorted((ref for ref in found if ref is not None), key=lambda ref: ref.age_order))

    async def delete(self, ref: BundleRef) -> None:
        """See Store. The newest of those that remain becomes the newest."""
        found = await self._tagged(tag_of(ref))
        if found is None or found[0] != ref:
            return
        await self._delete(digest_string(found[1]))
        pointed = await self._tagged(ref.key)
        if pointed is not None and pointed[0] != ref:
            return
        remaining = newest_of(await self.list(ref.key))
        if remaining is not None:
            await self._tag(ref.key, to_manifest(remaining))
        elif pointed is not None:
            await self._delete(digest_string(pointed[1]))

    async def gc(self, keep: Keep, now: datetime) -> tuple[BundleRef, ...]:
        """See Store. Uploads that never ended are the registry's own to purge."""
        gone = to_delete(await self.list(), keep, now)
        for ref in gone:
            await self.delete(ref)
        return gone

    async def push_image(
        self, layer: Path, layer_bytes: int, layer_digest: str, config: bytes, manifest: bytes, tag: str
    ) -> None:
        """Put an image of one layer into the repository, under `tag`. Digests as `sha256:…`. Raises StoreFault."""
        if not ANY_TAG.fullmatch(tag) or TAG.fullmatch(tag) or HEX64.fullmatch(tag):
            raise ValueError(f"{tag!r} can be no tag of an image here: bundles have those of hex digits")
        async with bounded(self._patience.total_s, self._place, f"pushing {tag}"):
            await upload_file(self._client, layer, layer_bytes, layer_digest)
            await upload_bytes(self._client, config, digest_string(config))
            await self._tag(tag, manifest)

    async def close(self) -> None:
        """See Store."""
        await self._client.close()

    async def _refuse_other(self, ref: BundleRef) -> None:
        found = await self._tagged(tag_of(ref))
        if found is not None and found[0] != ref:
            said = f"the tag {tag_of(ref)} holds the bundle {found[0].digest}, and is left as it is"
            raise StoreFault(StoreCause.CORRUPT, self._place, said, "find out who pushed it; delete it, publish again")

    async def _tagged(self, tag: str) -> tuple[BundleRef, bytes] | None:
        """The bundle under a tag, and its manifest. None: there is none, or it is none of ours."""
        answer = await self._client.ask(
            "GET", self._client.url(f"manifests/{tag}"), accept=(200, 404), headers={"Accept": MANIFEST_TYPE}
        )
        ref = from_manifest(answer.content) if answer.status_code == 200 else None
        return None if ref is None else (ref, answer.content)

    async def _tag(self, tag: str, manifest: bytes) -> None:
        await self._client.ask(
            "PUT",
            self._client.url(f"manifests/{tag}"),
            accept=(201,),
            headers={"Content-Type": MANIFEST_TYPE},
            content=manifest,
        )

    async def _delete(self, manifest_digest: str) -> None:
        await self._client.ask("DELETE", self._client.url(f"manifests/{manifest_digest}"), accept=(202, 404))

    async def _tags(self) -> tuple[str, ...]:
        tags: list[str] = []
        url = self._client.url(f"tags/list?n={PAGE}")
        for _ in range(MOST_PAGES):
            answer = await self._client.ask("GET", url, accept=(200, 404))
            if answer.status_code == 404:
                return ()
            try:
                tags += answer.json()["tags"] or ()
            except (ValueError, KeyError, TypeError) as error:
                said = "its list of tags is none"
                raise StoreFault(StoreCause.UNREACHABLE, self._place, said, "this is no registry") from error
            following = answer.links.get("next", {}).get("url")
            if following is None:
                break
            url = self._client.absolute(following)
        return tuple(tags)
