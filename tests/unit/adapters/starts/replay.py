"""Plays a recording of tests/data/cluster into `Stories`, version by version, as watches would bring it."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from activator_ext.adapters.starts import objects
from activator_ext.adapters.starts.stories import ServiceStarts, Stories
from activator_ext.core.model import ServiceId

RECORDED = Path(__file__).resolve().parents[3] / "data" / "cluster"
WORKLOADS = ("Deployment", "PodAutoscaler", "Revision")
Look = Callable[[Stories, datetime], None]


def lines(name: str) -> Iterator[tuple[datetime, dict[str, Any]]]:
    for text in (RECORDED / f"{name}.jsonl").read_text().splitlines():
        line = json.loads(text)
        yield datetime.fromisoformat(line["at"]), line


class Replay:
    """One recording, played until its end or `until`; `look` is called after each version."""

    def __init__(self, name: str, service: str, look: Look | None = None) -> None:
        self.stories = Stories()
        self.service = ServiceId("team-a", service)
        self.at = datetime.min.replace(tzinfo=UTC)
        self._kinds: dict[str, objects.Workload] = {}
        for self.at, line in lines(name):
            self.take(line)
            if look is not None:
                look(self.stories, self.at)

    def take(self, line: dict[str, Any]) -> None:
        if "gone" in line:
            self._gone(line["gone"])
            return
        item, kind = line["object"], line["object"]["kind"]
        if kind == "Pod" and (pod := objects.pod(item)) is not None:
            self.stories.pod(pod)
        elif kind == "Event":
            self.stories.event(objects.event(item))
        elif kind == "Node":
            self.stories.node(objects.node(item))
        elif kind in WORKLOADS and (workload := objects.workload(kind, item)) is not None:
            self._kinds[item["metadata"]["uid"]] = workload
            self.stories.workload(workload)

    def _gone(self, gone: dict[str, str]) -> None:
        if gone["kind"] == "Pod":
            self.stories.pod_gone(gone["uid"], self.at)
        elif gone["kind"] in WORKLOADS and gone["uid"] in self._kinds:
            self.stories.workload_gone(self._kinds[gone["uid"]])

    def starts(self) -> ServiceStarts:
        return self.stories.of(self.service, self.at)
