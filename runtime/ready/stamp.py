"""Has anything in a model directory changed? Told from names, sizes and times, without reading a file."""

import hashlib
import os
from pathlib import Path

from runtime.weights.integrity import is_url

MOST_FILES = 10_000
"""Files looked at; a model has a few hundred."""


def model_stamp(model: str) -> str | None:
    """A value that changes when a file below `model` comes, goes or is written. None: a URL, or nothing is there."""
    if is_url(model):
        return None
    root = Path(model)
    facts = []
    try:
        for directory, folders, files in os.walk(root, followlinks=True):
            folders.sort()
            for name in sorted(files):
                path = Path(directory, name)
                found = os.stat(path) if path.exists() else os.lstat(path)
                facts.append((str(path.relative_to(root)), found.st_size, found.st_mtime_ns, found.st_ino))
                if len(facts) >= MOST_FILES:
                    return _digest(facts)
    except OSError as error:
        return f"unreadable: {error.errno}"
    return _digest(facts) if facts or root.is_dir() else None


def _digest(facts: list[tuple[str, int, int, int]]) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()
