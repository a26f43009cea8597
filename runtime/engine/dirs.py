"""Where one replica's engine may write."""

import shutil
from dataclasses import dataclass
from pathlib import Path

MODEL_LINK = "model"
"""What an engine calls its model directory: a link of this name in its working directory."""


ASSETS = "assets"
"""The directory in its working directory in which an engine puts config and tokenizer of a bucket's model."""


@dataclass(frozen=True, slots=True)
class EngineDirs:
    """Private to one replica: two live processes that share a compile cache corrupt it.

    `cache` becomes VLLM_CACHE_ROOT; `log` is the file that engine output is appended to; `run` is scratch, and the
    engine's working directory, in which its processes have their sockets. `shared`: what all replicas of a host share;
    None: nothing.
    """

    cache: Path
    log: Path
    run: Path
    shared: Path | None = None

    @property
    def digests(self) -> Path:
        """Remembered digests of model files: a model that one replica has read through is not hashed by the next."""
        return (self.shared or self.cache.parent) / "model-digests.json"

    def make(self) -> None:
        """Create what is missing, and remove what an engine before it left that would mislead the next one.

        Of a socket nobody listens on; of a bucket's files those that are no longer in the bucket.
        """
        for directory in (self.cache, self.log.parent):
            directory.mkdir(parents=True, exist_ok=True)
        self.run.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.rmtree(self.run / ASSETS, ignore_errors=True)
        for left in self.run.iterdir():
            if left.is_socket():
                left.unlink()

    def link_model(self, model: Path) -> None:
        """Have the engine's working directory call `model` by its pinned name. Raises OSError."""
        link = self.run / MODEL_LINK
        link.unlink(missing_ok=True)
        link.symlink_to(model.absolute())
