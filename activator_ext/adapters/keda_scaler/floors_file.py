"""Floors from a YAML file, for who runs the scaler alone: read now and again whenever it changes.

floors:
  team-a/chat: 2
  team-a/embed: {replicas: 1, until: 2026-12-01T18:00:00+01:00}
"""

import asyncio
import contextlib
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from activator_ext.adapters.keda_scaler.answers import MAX_REPLICAS
from activator_ext.adapters.keda_scaler.floors import Floors, KnownFloor
from activator_ext.adapters.local.watch import watch
from activator_ext.core.model import ServiceId

MAX_BYTES = 4 * 1024 * 1024
"""A file of 50,000 services is smaller."""


class BadFloors(Exception):
    """The file cannot be used; the message names it, the key and the fix."""


class FloorsFile:
    """Keeps `floors` as the file says; a bad edit is told, and the last good floors stay."""

    def __init__(self, path: Path, floors: Floors, report: Callable[[str], None]) -> None:
        self._path = path
        self._floors = floors
        self._report = report
        self._bad = ""

    def read(self) -> None:
        """Read it now. Raises BadFloors."""
        self._floors.tell(parse(self._path), forever=True)

    async def follow(self) -> None:
        """Read it again on each change, until cancelled."""
        watching = asyncio.create_task(watch([self._path], self._read_again))
        try:
            # The watch compares with what it finds at its first step: an edit before that would be missed.
            await asyncio.sleep(0)
            with contextlib.suppress(BadFloors):
                self.read()
            await watching
        finally:
            watching.cancel()

    def _read_again(self) -> None:
        try:
            self.read()
        except BadFloors as error:
            if str(error) != self._bad:
                self._report(f"{error}; the floors read before stay")
            self._bad = str(error)
            return
        self._bad = ""
        count = len(self._floors.services)
        self._report(f"{self._path} was read again: floors of {count} service{'' if count == 1 else 's'}")


class _Loader(yaml.SafeLoader):
    """A key that stands twice is an error, not the last one's win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise BadFloors(f"line {line}: a key is plain text: write NAMESPACE/NAME")
            if key.value in seen:
                raise BadFloors(f"line {line}: {key.value!r} stands there twice: leave one out")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def parse(path: Path) -> dict[ServiceId, KnownFloor]:
    """The floors in a file. Raises BadFloors."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadFloors(f"cannot read {path} ({error.strerror}): name another file with --floors") from error
    if len(data) > MAX_BYTES:
        raise BadFloors(f"{path} is larger than {MAX_BYTES} bytes: is it a file of floors?")
    try:
        content = yaml.load(data, _Loader)  # noqa: S506 — a SafeLoader that knows duplicate keys
        return _floors(content)
    except BadFloors as error:
        raise BadFloors(f"{path}: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadFloors(f"{path} is no YAML: {' '.join(str(error).split())}") from error


def _floors(content: Any) -> dict[ServiceId, KnownFloor]:
    if not isinstance(content, dict) or set(content) != {"floors"} or not isinstance(content["floors"], dict):
        raise BadFloors("write one key `floors`, and under it a line NAMESPACE/NAME: REPLICAS for each service")
    return dict(_entry(key, value) for key, value in content["floors"].items())


def _entry(key: Any, value: Any) -> tuple[ServiceId, KnownFloor]:
    if not isinstance(key, str) or "/" not in key:
        raise BadFloors(f"{key!r} is no service: write NAMESPACE/NAME")
    try:
        service = ServiceId.parse(key)
    except ValueError as error:
        raise BadFloors(str(error)) from error
    if not isinstance(value, dict):
        value = {"replicas": value}
    unknown = sorted(str(name) for name in value.keys() - {"replicas", "until"})
    if unknown:
        raise BadFloors(f"{key}: unknown key {unknown[0]!r}: it takes replicas and until")
    replicas = value.get("replicas")
    if not isinstance(replicas, int) or isinstance(replicas, bool) or not 0 <= replicas <= MAX_REPLICAS:
        raise BadFloors(f"{key}: replicas {replicas!r} is no whole number from 0 to {MAX_REPLICAS}")
    return service, KnownFloor(replicas, _until(key, value.get("until")))


def _until(key: str, value: Any) -> datetime | None:
    if value is None:
        return None
    try:
        until = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        until = None
    if not isinstance(until, datetime) or until.tzinfo is None:
        raise BadFloors(
            f"{key}: until {value!s} is no instant with a zone: write one such as 2026-12-01T18:00:00+01:00"
        )
    return until.astimezone(UTC)
