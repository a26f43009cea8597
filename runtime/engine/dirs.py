"""Where one replica's engine may write."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class EngineDirs:
    """Private to one replica: two live processes that share a compile cache corrupt it.

    `cache` becomes VLLM_CACHE_ROOT; `log` is the file that engine output is appended to; `run` is scratch, and the
    engine's working directory.
    """

    cache: Path
    log: Path
    run: Path

    @property
    def digests(self) -> Path:
        """Remembered digests of model files, beside the cache, so that replicas of one parent directory share them."""
        return self.cache.parent / "model-digests.json"

    def make(self) -> None:
        """Create what is missing."""
        for directory in (self.cache, self.log.parent, self.run):
            directory.mkdir(parents=True, exist_ok=True)
