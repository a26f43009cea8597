"""What this machine and this model have to load with: modules, GPU, layout of the files, a peer's address."""

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path

from runtime.weights.integrity import is_url
from runtime.weights.loaders import LOADERS, Here, Layout

_RANK = re.compile(r"model-rank-(\d+)-part-\d+\.safetensors")


def here(model: str, env: Mapping[str, str]) -> Here:
    """Look; nothing is imported for it."""
    wanted = {loader.module for loader in LOADERS if loader.module is not None}
    return Here(
        modules=frozenset(name for name in wanted if importlib.util.find_spec(name) is not None),
        cuda=has_cuda(),
        url=is_url(model),
        layout="safetensors" if is_url(model) else layout_of(Path(model)),
        peer_server=env.get("MODEL_EXPRESS_URL") or env.get("MX_SERVER_ADDRESS"),
    )


def has_cuda(proc: Path = Path("/proc")) -> bool:
    """Whether NVIDIA's driver is loaded."""
    return (proc / "driver" / "nvidia" / "version").exists()


def layout_of(directory: Path) -> Layout:
    """What the weight files of a directory are; one that cannot be read is taken for a checkpoint."""
    try:
        if ranks_of(directory):
            return "sharded"
        return "tensorizer" if any(directory.glob("*.tensors")) else "safetensors"
    except OSError:
        return "safetensors"


def ranks_of(directory: Path) -> int:
    """For how many ranks a directory was prepared; 0: it is an ordinary checkpoint."""
    found = (_RANK.fullmatch(path.name) for path in directory.iterdir())
    return len({match[1] for match in found if match})
