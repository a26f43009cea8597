"""What measured fastest, remembered per node and model in one JSON file that several processes may write.

A measurement counts only for the versions of vLLM and the streamer that it was taken with: another version is another
loader. Losing the file costs the next start its choice, nothing else; an unreadable one counts as empty.
"""

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

WINNERS = "weight-loaders.json"
"""The file's name in the state directory."""

FORMAT = "pilotlight-loaders/1"


@dataclass(frozen=True, slots=True)
class Measured:
    """One bench: seconds by loader name, each round one number. `cold`: the page cache was dropped before each."""

    at: datetime
    versions: str
    cold: bool
    bytes: int
    seconds: Mapping[str, tuple[float, ...]]

    def medians(self) -> dict[str, float]:
        """Median seconds by loader, fastest first."""
        found = {name: median(each) for name, each in self.seconds.items() if each}
        return dict(sorted(found.items(), key=lambda item: item[1]))


def node_name(env: Mapping[str, str], machine_id: Path = Path("/etc/machine-id")) -> str:
    """Who this machine is. In a pod the host name is the pod's, hence NODE_NAME (the downward API) first."""
    if name := env.get("NODE_NAME"):
        return name
    with contextlib.suppress(OSError):
        if text := machine_id.read_text().strip():
            return text
    return socket.gethostname()


class Winners:
    """The file. `remember` after a bench, `recall` before a start."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def remember(self, node: str, model: str, measured: Measured) -> None:
        """Keep one bench; its loaders replace the same ones of before with the same versions. Raises OSError."""
        with self._locked():
            whole = self._read()
            key = _key(node, model, cold=measured.cold)
            before = _parse(whole.get(key))
            kept = before.seconds if before is not None and before.versions == measured.versions else {}
            seconds = {**kept, **measured.seconds}
            whole[key] = {
                "at": measured.at.astimezone(UTC).isoformat(),
                "versions": measured.versions,
                "bytes": measured.bytes,
                "seconds": {name: list(each) for name, each in seconds.items()},
            }
            self._write({"format": FORMAT, "measured": whole})

    def recall(self, node: str, model: str, versions: str, *, cold: bool) -> dict[str, float]:
        """Median seconds by loader, fastest first; empty where nothing was measured with these versions."""
        found = _parse(self._read().get(_key(node, model, cold=cold)))
        return found.medians() if found is not None and found.versions == versions else {}

    def _read(self) -> dict[str, object]:
        try:
            whole = json.loads(self._path.read_text())
        except (OSError, ValueError, RecursionError):
            return {}
        measured = whole.get("measured") if isinstance(whole, dict) and whole.get("format") == FORMAT else None
        return measured if isinstance(measured, dict) else {}

    def _write(self, whole: object) -> None:
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            draft.write_text(json.dumps(whole, indent=1) + "\n")
            draft.replace(self._path)
        finally:
            draft.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_name(f".{self._path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _key(node: str, model: str, *, cold: bool) -> str:
    return f"{node} {'cold' if cold else 'cached'} {model}"


def _parse(entry: object) -> Measured | None:
    try:
        fields = dict(entry)  # type: ignore[call-overload]  # whatever the file holds; the except below is the check
        seconds = {str(name): tuple(float(each) for each in rounds) for name, rounds in dict(fields["seconds"]).items()}
        at = datetime.fromisoformat(fields["at"])
        return Measured(at, str(fields["versions"]), False, int(fields["bytes"]), seconds)
    except (TypeError, ValueError, KeyError):
        return None
