"""Where the product meets the outside world, and what stands there in a run instead.

Each seam names a module's own name for something outside: a seam that is renamed makes every run fail at once.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

from runtime.contract import StartKind
from runtime.weights.before import Seen
from runtime.weights.integrity import ModelFacts
from runtime.weights.memory import Memory
from runtime.weights.plan import Attempt
from runtime.weights.preflight import Facts
from tests.races.asked import HostsClient
from tests.races.engines import Engines, digest_of
from tests.races.virtual_loop import VirtualLoop


class _Dirs:
    """Stands in for `EngineDirs`: nothing is written."""

    def __init__(self, cache: Path, log: Path, run: Path, shared: Path) -> None:
        del shared
        self.cache, self.log, self.run, self.digests = cache, log, run, cache

    def make(self) -> None:
        return None

    def link_model(self, model: Path) -> None:
        del model


@contextmanager
def simulated(engines: Engines, loop: VirtualLoop, sockets_namespace: Any) -> Iterator[None]:
    """The product's modules with the simulated outside world in place of the real one."""

    def client(url: str, timeout_s: float, headers: Mapping[str, str] | None = None) -> HostsClient:
        del headers  # what each may ask of the gate is tests/unit/runtime/ready's to show
        return HostsClient(engines, loop, url, timeout_s)

    async def prove_model(model: str, *_: Any) -> ModelFacts:
        await asyncio.sleep(0.02)
        return ModelFacts(digest_of(model), 1000)

    warm: set[tuple[str, str]] = set()

    def cache_kind(dirs: _Dirs, spec: Any) -> StartKind:
        return StartKind.CACHED_NODE if (str(dirs.cache), str(spec.args)) in warm else StartKind.COLD_NODE

    def remember(dirs: _Dirs, spec: Any) -> None:
        warm.add((str(dirs.cache), str(spec.args)))

    seams: dict[str, Any] = {
        "runtime.engine.launch.EngineProcess": engines.process_class(),
        "runtime.engine.launch.cache_kind": cache_kind,
        "runtime.engine.engines.HeldCredential": mock.MagicMock,
        "runtime.engine.preparation.prove_model": prove_model,
        "runtime.engine.start.remember_compiled": remember,
        "runtime.engine.launch._free_port": engines.free_port,
        "runtime.host.supervisor.EngineDirs": _Dirs,
        "runtime.ready.probe.client": client,
        "runtime.ready.golden.client": client,
        "runtime.ready.golden.version": _version,
        "runtime.ready.gate_control.client": client,
        "runtime.engine.running.client": client,
        "runtime.engine.running.vitals_of": engines.vitals,
        "runtime.engine.watch.vitals_of": engines.vitals,
        "runtime.engine.watch.counter_of": lambda _pid: None,
        "runtime.engine.preparation.look": lambda *_, **__: _SEEN,
        "runtime.engine.weight_sources.planned": _one_way,
        "runtime.engine.preparation.model_stamp": lambda _model: "stamp",
        "runtime.host.model_watch.model_stamp": lambda _model: "stamp",
    }
    for module in ("activator_ext.portal.reporter", "activator_ext.portal.sources", "activator_ext.portal.waker",
                   "runtime.host.poster"):  # fmt: skip
        seams[f"{module}.aiohttp"] = sockets_namespace
    patches = [mock.patch(name, value) for name, value in seams.items()]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


_version = cache(version)
_SEEN = Seen(ModelFacts(None, None), Facts(None, Memory(None), None, None))


def _one_way(spec: Any, *_: Any) -> tuple[Attempt, ...]:
    return (Attempt("default", "local", spec.model, (), {}, "there is no other"),)
