"""Compiles the portal's hot modules with mypyc into the environment: `python -m scripts.compile_portal`.

They are compiled from a copy, so that no library ever lies beside a source and outlives an edit of it; see
`activator_ext/portal/compiled.py`. Does nothing if this source is compiled already. If it cannot be compiled (no C
compiler, no Python.h) the portal runs interpreted, which is said; with CI=true that is an error.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from activator_ext.portal.compiled import MODULES, place

_ROOT = Path(__file__).parent.parent
_SETUP = """
from mypyc.build import mypycify
from setuptools import setup

options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
setup(name="portal", packages=[], ext_modules=mypycify([*options, *{files!r}], opt_level="3"))
"""


def main() -> int:
    """Compile if need be; 1 only if that failed and CI=true."""
    target = place()
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two at once would be twice the wait, and remove each other's work
        return 0 if target.is_dir() else _compile(target)


def _compile(target: Path) -> int:
    print("compiling the portal (under a minute, after each change of it)", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        for package in ("activator_ext", "runtime"):
            shutil.copytree(_ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
        files = [f"activator_ext/portal/{module}.py" for module in MODULES]
        (copy / "setup.py").write_text(_SETUP.format(files=files))
        built = subprocess.run(
            [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", "out"],
            cwd=copy, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if built.returncode:
            said = "\n".join((built.stdout + built.stderr).splitlines()[-20:])
            print(f"{said}\nthe portal could not be compiled and runs interpreted, at half the speed: it needs a C "
                  "compiler and Python.h (Debian: gcc, python3-dev)", file=sys.stderr)  # fmt: skip
            return 1 if os.environ.get("CI") == "true" else 0
        _install(copy / "out", target)
    return 0


def _install(built: Path, target: Path) -> None:
    """Into place in one step; those of older sources go."""
    for old in target.parent.iterdir():
        if old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
    staged = target.with_name("new")
    shutil.copytree(built, staged)
    staged.rename(target)


if __name__ == "__main__":
    sys.exit(main())
