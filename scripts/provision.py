"""What `scripts/setup` does: a virtual environment with the engine's CPU build, made once, whole or not at all.

Standard library only. A stamp in the environment holds a digest of what it was made from, so that a second run ends at
once; a marker says that an install is under way, so that an interrupted one is thrown away and made anew.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.engine_fixups import alias_vllm, cuda_linked
from scripts.progress import Progress, run_logged

ROOT = Path(__file__).resolve().parent.parent
# The environment is 3.0 GB when done; pip needs as much again for wheels in flight.
NEEDED_BYTES = 6 * 2**30
TORCH_INDEX = "PILOTLIGHT_TORCH_INDEX"
STAMP = "pilotlight-setup.stamp"
# Unpacked beside the environment, not installed: kserve wants an older psutil and protobuf than the engine's. Only
# scripts/kserve_fields.py and the tests read their sources.
KSERVE_SDK = "kserve-sdk"
KSERVE_PACKAGES = ("kserve==0.21.0", "kubernetes==36.0.3")
MARKER = "pilotlight-setup.running"

Which = Callable[[str], str | None]


class SetupError(Exception):
    """Set-up cannot go on; the message says why and what to do."""


def main() -> int:
    """Set up, and report in one line; the exit status."""
    try:
        with _only_one(ROOT):
            print(provision(ROOT))
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: stopped. Run it again: what is half made is made anew.", file=sys.stderr)
        return 130
    return 0


def provision(root: Path) -> str:
    """Bring `root/.venv` to the state that pyproject.toml asks for and say what was done. Raises SetupError."""
    check_machine()
    home = root / ".venv"
    wanted = digest(root)
    if is_current(home, wanted):
        return f"setup: {home} is up to date"
    obsolete = unusable(home)
    if obsolete:
        print(f"setup: {obsolete}; starting over")
        shutil.rmtree(home)
    check_disk(root)
    progress = Progress(interactive=sys.stdout.isatty())
    if not (home / "bin" / "python").exists():
        progress.step("making .venv")
        venv.create(home, with_pip=True)
    (home / MARKER).touch()
    (home / STAMP).unlink(missing_ok=True)
    _install(root, home, progress)
    _fix_up(home, progress)
    _unpack_kserve_sdk(home, progress)
    _verify(home)
    (home / STAMP).write_text(wanted + "\n", encoding="ascii")
    (home / MARKER).unlink()
    progress.end()
    return f"setup: ready in {progress.elapsed_s:.0f} s; log in {home / 'setup.log'}"


def check_machine(*, which: Which = shutil.which, platform: str = sys.platform) -> None:
    """Raise SetupError unless this is Linux with a C++ compiler and Python's headers.

    The compiler is needed at each start of an engine, not only here: torch compiles the model's kernels. It looks for
    `g++` unless CXX names another.
    """
    if platform != "linux":
        raise SetupError(
            "only Linux is supported: the engine's CPU build is made for it. Use a Linux machine or container."
        )
    compiler = os.environ.get("CXX", "g++")
    if which(compiler) is None:
        raise SetupError(
            f"no C++ compiler: `{compiler}` is not on PATH, and the engine compiles its kernels at each start. "
            "Install it (Debian, Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++), or name another in CXX."
        )
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.exists():
        raise SetupError(
            f"Python's headers are missing ({header}); compiled kernels include them. Install them "
            "(Debian, Ubuntu: apt-get install python3-dev; Fedora: dnf install python3-devel)."
        )


def check_disk(root: Path, *, free_bytes: int | None = None) -> None:
    """Raise SetupError if the file system of `root` has less than 6 GiB free."""
    free = shutil.disk_usage(root).free if free_bytes is None else free_bytes
    if free < NEEDED_BYTES:
        raise SetupError(
            f"{free / 2**30:.1f} GiB free at {root}, {NEEDED_BYTES / 2**30:.0f} GiB are needed. "
            "Make room and run it again."
        )


def digest(root: Path) -> str:
    """What the environment depends on: pyproject.toml, set-up itself, and the Python that runs it."""
    scripts = Path(__file__).resolve().parent
    parts = ("setup", "provision.py", "engine_fixups.py", "progress.py")
    sources = [root / "pyproject.toml", *(scripts / part for part in parts)]
    seen = hashlib.sha256(f"{sys.version_info[:3]} {sys.base_prefix} {root}".encode())
    for source in sources:
        seen.update(source.read_bytes())
    return seen.hexdigest()


def is_current(home: Path, wanted: str) -> bool:
    """Whether the environment was made whole, from exactly this."""
    stamp = home / STAMP
    whole = not (home / MARKER).exists() and (home / "bin" / "python").exists()
    return whole and stamp.exists() and stamp.read_text(encoding="ascii").strip() == wanted


def unusable(home: Path) -> str | None:
    """Why an existing environment must be thrown away; None if it can be topped up, or there is none."""
    if (home / MARKER).exists():
        return "an earlier set-up was interrupted"
    if not home.exists():
        return None
    if not _site_packages(home).exists():
        return f"{home} was made by another Python"
    pip = home / "bin" / "pip"
    # Scripts of an environment begin with its own path, so one that was copied or moved runs another one's Python.
    if not pip.exists() or str(home) not in pip.read_text(encoding="utf-8", errors="replace"):
        return f"{home} was moved here, or has no pip"
    return None


def explain(log: str) -> str:
    """What to do about a failed install, from what pip said."""
    causes = {
        ("No matching distribution found for torch", "ResolutionImpossible"): (
            f"The engine pins a CPU build of torch that your package index lacks. Set {TORCH_INDEX} to the address of "
            "PyTorch's CPU wheel index (PyTorch's install page shows it for Pip and CPU) and run it again."
        ),
        ("No matching distribution found",): (
            "The package index lacks what the log names. Check pip's configuration (`pip config list`)."
        ),
        ("No space left on device",): "The disk is full. Make room and run it again.",
        ("Read timed out", "Temporary failure in name resolution", "Connection refused", "Failed to establish"): (
            "The package index could not be reached. Check the network and pip's configuration (`pip config list`)."
        ),
    }
    for signs, fix in causes.items():
        if any(sign in log for sign in signs):
            return fix
    return "Read the log, mend what it names, and run it again."


def _install(root: Path, home: Path, progress: Progress) -> None:
    """Install the project with its engine: from the indexes as configured first, with PyTorch's only if that fails."""
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    command = [*pip, "--progress-bar=off", "--editable", ".[cpu,dev]"]
    log = home / "setup.log"
    log.unlink(missing_ok=True)
    progress.step("installing (about 1 GB to download)")
    status = run_logged(command, cwd=root, log=log, progress=progress)
    index = os.environ.get(TORCH_INDEX)
    if status != 0 and index:
        progress.step(f"that failed; once more with {TORCH_INDEX}")
        status = run_logged([*command, "--extra-index-url", index], cwd=root, log=log, progress=progress)
    if status != 0:
        progress.end()
        text = log.read_text(encoding="utf-8", errors="replace")
        tail = "\n".join(f"    {line}" for line in text.splitlines()[-12:])
        raise SetupError(f"the install failed. The end of {log}:\n{tail}\n{explain(text)}")


def _fix_up(home: Path, progress: Progress) -> None:
    site = _site_packages(home)
    unwanted = cuda_linked(site)
    if unwanted:
        progress.step(f"removing {', '.join(unwanted)}: linked to CUDA, they break the CPU engine")
        command = [str(home / "bin" / "python"), "-m", "pip", "uninstall", "--yes", *unwanted]
        if run_logged(command, cwd=home, log=home / "setup.log", progress=progress) != 0:
            raise SetupError(f"could not remove {', '.join(unwanted)}; see {home / 'setup.log'}")
    alias_vllm(site)


def _unpack_kserve_sdk(home: Path, progress: Progress) -> None:
    progress.step("unpacking the kserve SDK, which says what its objects hold")
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    options = ["--progress-bar=off", "--no-deps", "--no-compile", "--upgrade", "--target", str(home / KSERVE_SDK)]
    if run_logged([*pip, *options, *KSERVE_PACKAGES], cwd=home, log=home / "setup.log", progress=progress) != 0:
        text = (home / "setup.log").read_text(encoding="utf-8", errors="replace")
        raise SetupError(f"could not unpack {', '.join(KSERVE_PACKAGES)}; see {home / 'setup.log'}. {explain(text)}")


def _verify(home: Path) -> None:
    """The environment's own Python sees the engine under its real name, and our packages. Raises SetupError."""
    code = (
        "from importlib.metadata import version; from importlib.util import find_spec; "
        "assert version('vllm'); assert version('pilotlight'); assert find_spec('vllm') and find_spec('runtime'); "
        "assert not find_spec('torchvision')"
    )
    done = subprocess.run([home / "bin" / "python", "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SetupError(
            f"the finished environment does not work: {done.stderr.strip()}\nRemove {home} and run it again."
        )


def _site_packages(home: Path) -> Path:
    return home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


@contextmanager
def _only_one(root: Path) -> Iterator[None]:
    """Hold the repository's directory, so that two set-ups at once do not build one environment. Raises SetupError."""
    handle = os.open(root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SetupError("another set-up is running here; wait for it") from None
        yield
    finally:
        os.close(handle)
