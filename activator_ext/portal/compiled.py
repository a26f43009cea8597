"""Take the portal's hot modules from their compiled form, if there is one of exactly this source.

`python -m scripts.compile_portal` makes it with mypyc from the same files; a warm request then costs half the Python.
Without it, or after an edit of a file, the same modules run interpreted.
"""

import hashlib
import sys
from pathlib import Path

import activator_ext.portal

MODULES = (
    "admission", "client", "door", "engine", "engines", "exchange", "heads", "intake", "loads", "metrics", "models",
    "paths", "progress", "public", "refusals", "reply", "request", "room", "table", "wait",
)  # fmt: skip
"""What is compiled: all that a request passes through. The rest talks to controller and hosts, or needs a metaclass."""


def place(prefix: Path | None = None, *, source: Path | None = None) -> Path:
    """Where the compiled form of this source lies, or would: below the environment, under the source's digest."""
    digest = hashlib.sha256(f"{sys.implementation.cache_tag} {sys.platform}".encode())
    for path in sorted((source or Path(__file__).parent).glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return (prefix or Path(sys.prefix)) / "pilotlight-portal" / digest.hexdigest()[:16]


def use(where: Path | None = None) -> bool:
    """From now on import the modules compiled; whether they are. Before any of them is imported."""
    where = where or place()
    modules = where / "activator_ext" / "portal"
    if not modules.is_dir():
        return False
    # mypyc puts the code of all modules into one library, which their own small ones import by its name.
    sys.path.append(str(where))
    activator_ext.portal.__path__.insert(0, str(modules))
    return True
