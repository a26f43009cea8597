"""The user's YAML files: read at the start, re-read on change; a bad edit is told and the last good state stays."""

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from activator_ext.adapters.local.manifests import Finding, Loaded, LocalService, load
from activator_ext.adapters.local.watch import watch
from activator_ext.core.model import ServiceId


class Files:
    """Reads the files into services. `report` is told each new finding once, `changed` the services of a good read."""

    def __init__(
        self,
        paths: Sequence[Path],
        volumes: Mapping[str, Path],
        platform: Literal["cpu", "cuda"],
        *,
        changed: Callable[[Mapping[ServiceId, LocalService]], None],
        report: Callable[[str], None],
    ) -> None:
        self._paths = paths
        self._volumes = volumes
        self._platform = platform
        self._changed = changed
        self._report = report
        self._findings: tuple[Finding, ...] = ()
        self._services: dict[ServiceId, LocalService] | None = None
        self._bad = False

    def read(self) -> None:
        """Read all files now; a good read is handed on."""
        self.take(load(self._paths, self._volumes, self._platform))

    def take(self, loaded: Loaded) -> None:
        """Tell what is new in what was read; hand it on if it is good."""
        for finding in loaded.findings:
            if finding not in self._findings:
                self._report(str(finding))
        self._findings = loaded.findings
        if loaded.ok:
            self._hand_on({service.id: service for service in loaded.services})
        elif not self._bad:
            self._report("the files have errors: what was read before stays in force until they are mended")
        self._bad = not loaded.ok

    def _hand_on(self, services: dict[ServiceId, LocalService]) -> None:
        changes = [] if self._services is None else _changes(self._services, services)
        if changes:
            self._report(f"the files were read again: {', '.join(changes)}")
        elif self._bad:
            self._report("the files are good again, and say what they said before")
        self._services = services
        self._changed(services)

    async def watch(self) -> None:
        """Re-read on each change, until cancelled."""
        watching = asyncio.create_task(watch(self._paths, self.read))
        try:
            # The watch compares with what it finds at its first step: an edit between the first read and that step
            # would be missed without one more read.
            await asyncio.sleep(0)
            self.read()
            await watching
        finally:
            watching.cancel()


def _changes(before: Mapping[ServiceId, LocalService], after: Mapping[ServiceId, LocalService]) -> list[str]:
    """Which services are new, gone or other than before, by name."""
    words = dict.fromkeys(after.keys() - before.keys(), "is new")
    words |= dict.fromkeys(before.keys() - after.keys(), "is gone")
    for service in before.keys() & after.keys():
        old, new = before[service], after[service]
        if (old.policy, old.spec, old.names) != (new.policy, new.spec, new.names):
            words[service] = "changed"
    return [f"{service} {word}" for service, word in sorted(words.items())]


def platform_of(choice: str) -> Literal["cpu", "cuda"]:
    """`auto` means CUDA where its driver's own tool is installed: without the driver no CUDA engine can run."""
    if choice == "cuda" or (choice == "auto" and shutil.which("nvidia-smi")):
        return "cuda"
    return "cpu"
