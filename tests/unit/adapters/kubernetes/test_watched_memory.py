import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.unit.adapters.knative.world import ours
from tests.unit.adapters.kubernetes.api_server import api_server

COUNT = 10_000
# A Revision of KServe's as an API server lists it, with its managed fields.
SIZE_BYTES = 6_000


@pytest.mark.prove
async def test_of_ten_thousand_objects_only_what_is_kept_is_held(tmp_path: Path) -> None:
    async with api_server() as server:
        one = ours("r", "1")
        one["spec"] = {"containers": ["x" * (SIZE_BYTES - len(json.dumps(one)))]}
        for n in range(COUNT):
            metadata = {**one["metadata"], "name": f"chat-{n}-predictor-00001", "uid": f"7c525b40-{n:027d}"}
            server.objects[metadata["name"]] = {**one, "metadata": metadata}
        environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig(tmp_path))}
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.unit.adapters.kubernetes.listing",
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )
        said, _ = await child.communicate()
    count, held, peak, before = map(int, said.split())
    print(
        f"{count} Revisions of {SIZE_BYTES} bytes: {held / 2**20:.1f} MiB held, {peak / 2**20:.1f} MiB at the peak "
        f"of listing, over {before / 2**20:.0f} MiB of the process itself"
    )
    assert count == COUNT
    assert held < 20 * 2**20
    assert peak < 64 * 2**20
