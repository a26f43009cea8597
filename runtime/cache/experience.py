"""What the starts of this host's services have shown: how long compiling and publishing took, what KV cache they got.

One JSON file, written whole. It is an estimate, not a truth: lost, damaged or full it counts as empty, and starts go by
what is assumed of every service.
"""

import contextlib
import hashlib
import json
import os
import statistics
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runtime.cache.following import Known
from runtime.cache.staging import draft_file, publish_file
from runtime.cache.start_cache import StartCache
from runtime.contract import EngineSpec, Verdict

LAST = 5
"""Starts of a kind that are remembered; their median is what the next one goes by."""
MOST_SERVICES = 256
MOST_ENGINES = 8
"""Engines of a service (arguments and environment) whose KV cache is remembered, the newest."""
_FILE_BYTES = 2**20


class _Service(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    compiled_s: tuple[float, ...] = ()
    restored_s: tuple[float, ...] = ()
    whole_s: tuple[float, ...] = ()
    kv_tokens: dict[str, int] = Field(default_factory=dict)


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    services: dict[str, _Service] = Field(default_factory=dict)


class Experience:
    """The record of one host, in `file`. Every method blocks, and none raises."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def known(self, service: str) -> Known:
        """What is known for a start of `service` that finds no bundle."""
        row = self._read().get(service, _Service())
        if not row.compiled_s:
            return Known(None, _median(row.whole_s))
        with_it_s = min(_median(row.restored_s) or 0.0, _median(row.compiled_s) or 0.0)
        return Known((_median(row.compiled_s) or 0.0) - with_it_s, _median(row.whole_s))

    def learn(self, cache: StartCache, compile_s: float | None, now: datetime) -> None:
        """The start with `cache` was admitted, and its bundle offered by `now`; its compile stage took `compile_s`.

        An engine that keeps no compiled code has nothing to save: 0 s.
        """
        compiled = cache.use.verdict is not Verdict.USED
        if cache.service is None or cache.use.verdict in (None, Verdict.PARTLY):
            return
        if cache.kv_tokens is not None and not compiled:
            self.got_kv_tokens(cache.service, cache.engine, cache.kv_tokens)
        if compile_s is None and cache.compiles:
            return
        begun = cache.turns.begun_at
        whole_s = (now - begun).total_seconds() if compiled and begun is not None else None
        self.took(cache.service, compile_s if compile_s and cache.compiles else 0.0, compiled=compiled, whole_s=whole_s)

    def took(self, service: str, compile_s: float, *, compiled: bool, whole_s: float | None = None) -> None:
        """A start was proven: its compile stage, whether it had all to compile, and its turn until the publication."""
        row = self._read().get(service, _Service())
        name = "compiled_s" if compiled else "restored_s"
        update: dict[str, object] = {name: _with(getattr(row, name), compile_s)}
        if whole_s is not None:
            update["whole_s"] = _with(row.whole_s, whole_s)
        self._write(service, row.model_copy(update=update))

    def kv_tokens(self, service: str, engine: str) -> int | None:
        """The KV cache that the last start of this `engine` with a bundle got, in tokens; None: there was none."""
        return self._read().get(service, _Service()).kv_tokens.get(engine)

    def got_kv_tokens(self, service: str, engine: str, tokens: int) -> None:
        """A start with a bundle got so much KV cache."""
        row = self._read().get(service, _Service())
        if row.kv_tokens.get(engine) == tokens:
            return
        others = [(each, known) for each, known in row.kv_tokens.items() if each != engine]
        newest = dict([*others, (engine, tokens)][-MOST_ENGINES:])
        self._write(service, row.model_copy(update={"kv_tokens": newest}))

    def _read(self) -> Mapping[str, _Service]:
        try:
            with self._file.open("rb") as file:
                data = file.read(_FILE_BYTES + 1)
            return _Stored.model_validate_json(data).services if len(data) <= _FILE_BYTES else {}
        except (OSError, ValidationError, ValueError):
            return {}

    def _write(self, service: str, row: _Service) -> None:
        others = [(each, known) for each, known in self._read().items() if each != service]
        services = dict([*others, (service, row)][-MOST_SERVICES:])
        with contextlib.suppress(OSError):  # it is known for this start, and forgotten for the next
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with draft_file(self._file) as draft:
                os.write(draft.fd, _Stored(services=services).model_dump_json().encode())
                publish_file(draft, self._file)


def engine_name(spec: EngineSpec) -> str:
    """A short name for all of `spec` that may change how large its KV cache is."""
    facts = [spec.platform, spec.model, list(spec.args), sorted(spec.env.items())]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _median(seconds: tuple[float, ...]) -> float | None:
    return statistics.median(seconds) if seconds else None


def _with(seconds: tuple[float, ...], more_s: float) -> tuple[float, ...]:
    return (*seconds, round(max(0.0, more_s), 3))[-LAST:]
