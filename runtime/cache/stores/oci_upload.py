"""A file into a registry, in chunks; a chunk that fails is taken up where the registry says it stands."""

import re
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import httpx

from runtime.aside import aside
from runtime.cache.stores.base import StoreCause, StoreFault
from runtime.cache.stores.files import Handle, fault_of, open_regular
from runtime.cache.stores.oci_client import TRIES, RegistryClient

CHUNK_BYTES = 8 * 1024 * 1024
"""Above the 5 MiB that S3-backed registries want at least."""


async def upload_bytes(client: RegistryClient, data: bytes, digest: str) -> None:
    """A small blob, whole. One that is there already is not sent. `digest`: as `sha256:…`."""
    if not await _is_there(client, digest):
        location = await _begin(client)
        await _finish(client, location, digest, data)


async def upload_file(client: RegistryClient, file: Path, size_bytes: int, digest: str) -> None:
    """A large blob. One that is there already is not sent."""
    if await _is_there(client, digest):
        return
    location, offset, failures = await _begin(client), 0, 0
    try:
        handle = Handle(await aside(open_regular, file))
    except OSError as error:
        raise fault_of(error, str(file)) from error
    try:
        while offset < size_bytes:
            chunk = await aside(handle.read, CHUNK_BYTES, offset)
            if not chunk:
                said = f"ended at {offset} of {size_bytes} bytes"
                raise StoreFault(StoreCause.CORRUPT, str(file), said, "publish it once nothing writes to it any more")
            try:
                location = await _send(client, location, offset, chunk)
                offset += len(chunk)
            except StoreFault as fault:
                failures += 1
                if fault.cause is not StoreCause.UNREACHABLE or failures >= TRIES:
                    raise
                location, offset = await _where(client, location)
    except OSError as error:
        raise fault_of(error, str(file)) from error
    finally:
        handle.close()
    await _finish(client, location, digest, b"")


async def _is_there(client: RegistryClient, digest: str) -> bool:
    answer = await client.ask("HEAD", client.url(f"blobs/{digest}"), accept=(200, 404))
    return answer.status_code == 200


async def _begin(client: RegistryClient) -> str:
    answer = await client.ask("POST", client.url("blobs/uploads/"), accept=(202,), headers={"Content-Length": "0"})
    return _location(client, answer)


async def _send(client: RegistryClient, location: str, offset: int, chunk: bytes) -> str:
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Range": f"{offset}-{offset + len(chunk) - 1}",
    }
    answer = await client.ask("PATCH", location, accept=(202,), headers=headers, content=chunk, retry=False)
    return _location(client, answer)


async def _where(client: RegistryClient, location: str) -> tuple[str, int]:
    """Where to go on, and from which byte: from the start, if the registry no longer knows this upload.

    docker-registry forgets it as soon as it holds more than its last answer said.
    """
    answer = await client.ask("GET", location, accept=(204, 404, 416))
    if answer.status_code != 204:
        return await _begin(client), 0
    held = re.fullmatch(r"(?:bytes=)?0-(\d+)", answer.headers.get("range", ""))
    # "0-0" is what registries say of an upload that holds nothing.
    offset = int(held.group(1)) + 1 if held and held.group(1) != "0" else 0
    return (_location(client, answer) if "location" in answer.headers else location), offset


async def _finish(client: RegistryClient, location: str, digest: str, data: bytes) -> None:
    joint = "&" if urlsplit(location).query else "?"
    headers = {"Content-Type": "application/octet-stream"}
    url = f"{location}{joint}{urlencode({'digest': digest})}"
    await client.ask("PUT", url, accept=(201,), headers=headers, content=data, retry=False)


def _location(client: RegistryClient, answer: httpx.Response) -> str:
    if "location" not in answer.headers:
        raise StoreFault(StoreCause.UNREACHABLE, client.place, "it named no place to upload to", "this is no registry")
    return client.absolute(answer.headers["location"])
