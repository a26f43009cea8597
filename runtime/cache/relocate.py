"""Files that name their neighbours by absolute path, made independent of the place (see `layout.holds_paths`)."""

import json
import os
from pathlib import Path

TOKEN = b"@PILOTLIGHT_CACHE_ROOT@"
"""Stands for the cache root in an archived file."""

RELOCATED_BYTES = 2**20
"""Triton's group files have about 1 kB; a larger one is something else and stays out."""


def without_root(data: bytes, root: Path) -> bytes | None:
    """`data` with the root as a token; None where it names paths elsewhere, and so is of no use at another place."""
    if TOKEN in data:
        return None
    for spelled in {str(root), os.path.realpath(root)}:
        data = data.replace(_quoted(spelled) + b"/", TOKEN + b"/")
    try:
        paths = json.loads(data)["child_paths"].values()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    token = TOKEN.decode()
    return data if all(str(path).startswith(token) for path in paths) else None


def with_root(data: bytes, root: Path) -> bytes:
    """`data` with the token replaced by `root`."""
    return data.replace(TOKEN, _quoted(str(root)))


def _quoted(path: str) -> bytes:
    """As it stands inside a JSON string."""
    return json.dumps(path)[1:-1].encode()
