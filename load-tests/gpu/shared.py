"""Our hosts on CUDA: one compiles and publishes, another takes the bundle, and forks one more engine."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import yaml

from gpu.machine import cuda_environment
from gpu.plan import ARGS
from runtime.contract import EngineSpec, Lease, ServiceOrder
from start.asked import first_token, greedy, wait_for
from start.ours import Host
from start.processes import python, running

Platform = Literal["cuda", "cpu"]


class PlatformHost(Host):
    """A host whose engines are on `platform`."""

    platform: Platform = "cuda"

    def order(self, service: str, model: Path) -> None:
        """Want one engine of `service`, from now on."""
        spec = EngineSpec(service=service, served_names=(service,), model=str(model), args=ARGS, platform=self.platform)
        order = ServiceOrder(spec=spec, replicas=1, asked_at=datetime.now(UTC), why="gpu bench")
        self._http.put("/v1/host/lease", content=Lease(seconds=3600).model_dump_json()).raise_for_status()
        self._http.put(f"/v1/services/{service}", content=order.model_dump_json()).raise_for_status()


def measure(home: Path, model: Path, platform: Platform = "cuda") -> dict[str, Any]:
    """Verdicts, kinds, seconds, and whether all three engines answer alike. Raises BenchFailed.

    `platform` `cpu` shows that the step itself works (tests/engine/test_gpu_bench.py).
    """
    store = home / "store"
    store.mkdir(parents=True)
    with _host(home / "builder", platform, "--publish-to", str(store)) as host:
        built_s, built = _start(host, "bench/builder", model, host.begun)
        wait_for("the bundle", lambda: host.published("bench/builder"), lambda: True, str(home / "builder.log"))
    public = (home / "builder" / "root" / ".shelf" / "signing-key.pem.pub").read_text()
    trust = home / "trust.yaml"
    trust.write_text(yaml.safe_dump({"keys": [{"name": "builder", "public_key": public}]}))
    with _host(home / "user", platform, "--store", str(store), "--trust", str(trust)) as host:
        restored_s, restored = _start(host, "bench/first", model, host.begun)
        fork_s, fork = _start(host, "bench/further", model, time.monotonic())
        return told(
            {"built": built_s, "restored": restored_s, "fork": fork_s},
            host.record("bench/first"),
            host.record("bench/further"),
            identical=built == restored == fork,
        )


def told(
    seconds: dict[str, float], first: dict[str, Any], further: dict[str, Any], *, identical: bool
) -> dict[str, Any]:
    """The figures of the step, from the records of the restored start and of the fork."""
    return {
        **{f"{name}_s": round(value, 2) for name, value in seconds.items()},
        "verdict": first["cache"]["verdict"],
        "evidence": first["cache"]["evidence"],
        "restored_compile_s": first["cache"]["compile_s"],
        "fork_verdict": further["cache"]["verdict"],
        "forked": further["forked"],
        "fork_kind": further["kind"],
        "spawned_because": further["spawned_because"],
        "identical": identical,
    }


def _start(host: PlatformHost, service: str, model: Path, begun: float) -> tuple[float, tuple[int, ...]]:
    host.order(service, model)
    url = host.url(service)
    return first_token(url, service) - begun, greedy(url, service)


@contextmanager
def _host(home: Path, platform: Platform, *options: str) -> Iterator[PlatformHost]:
    home.mkdir(parents=True)
    socket, log = home / "s", home.with_suffix(".log")
    argv = [python(), "-m", "runtime.host", "--socket", str(socket), "--root", str(home / "root"), *options]
    begun = time.monotonic()
    with running(argv, env=cuda_environment(), log=log, cwd=home) as child:
        host = PlatformHost(socket, log, lambda: child.poll() is None, begun)
        host.platform = platform
        try:
            yield host
        finally:
            host.close()
