"""Makes a prepared copy of a model beside the old one: all of it in a hidden directory, then one rename.

Killed at any instant it leaves nothing that looks like a model: only `.OUT.partial-…`, which the next run of the same
target removes. The list of digests is written last, from what then lies on the disk.
"""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.engine.leash import PARENT_ENV
from runtime.weights.digest import DigestCache, hash_directory
from runtime.weights.examine import served
from runtime.weights.finding import gib
from runtime.weights.given import BadListError, given_digests, is_list, write_list
from runtime.weights.integrity import check_shape
from runtime.weights.needs import Needs
from runtime.weights.prepare.convert import Conversion, as_json
from runtime.weights.weight_files import PICKLE_SUFFIXES, unfinished

SHARD_BYTES = 4 * 2**30
"""A file's at most, unless told: as the hub cuts, so that several readers have something to read."""

SPARE = 1.05
"""Of the weights' bytes that must be free: what lies beside them, and the file system's own."""


class PrepareError(Exception):
    """It cannot be done; nothing is left behind. `str()` names the place and the fix."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was made. `files` and `bytes` of weights."""

    out: Path
    digest: str
    files: int
    bytes: int


def prepare(
    source: Path,
    out: Path,
    *,
    dtype: str | None,
    shard_bytes: int = SHARD_BYTES,
    tell: Callable[[str], None] = lambda _: None,
) -> Prepared:
    """Write `source`, prepared, to `out`, which must not exist. `dtype` None: stored as it is.

    Raises PrepareError; Fault where the source is not whole.
    """
    weights = whole(source)
    room_for(out.parent, weights)
    with drafted(out) as draft:
        tell("copying what is no weight")
        copy_others(source, draft, weights)
        _convert(weights, draft, dtype, shard_bytes, tell)
        if dtype is not None:
            _tell_dtype(draft, dtype)
        tell("writing digests")
        return finish(draft, out, {"dtype": dtype or "as stored", "shard_bytes": shard_bytes})


def finish(draft: Path, out: Path, how: dict[str, object]) -> Prepared:
    """Prove `draft`, write its digests last and give it its name. Raises Fault, OSError."""
    written = check_shape(draft, Needs())
    digest = write_digests(draft, {"prepared": how})
    size = sum(path.stat().st_size for path in written)
    _sync(draft)
    draft.rename(out)
    _sync_directory(out.parent)
    return Prepared(out, digest, len(written), size)


def write_digests(
    directory: Path, notes: dict[str, object], stop: threading.Event | None = None, *, anew: bool = True
) -> str:
    """Hash every file of `directory` as it lies there, write our list, return the model's digest.

    Not `anew`: PrepareError where a list is there that says otherwise of a file: it may be damaged since. Raises
    OSError.
    """
    with tempfile.TemporaryDirectory() as nowhere:  # what an earlier look remembered does not count here
        hashed = hash_directory(directory, DigestCache(Path(nowhere, "digests.json")), stop or threading.Event())
    listed = {name: digest for name, digest in hashed.files.items() if "/" in name or not is_list(name)}
    if not anew:
        _refuse_changed(directory, listed)
    write_list(directory, {name: (each, (directory / name).stat().st_size) for name, each in listed.items()}, notes)
    return hashed.digest


def _refuse_changed(directory: Path, now: Mapping[str, str]) -> None:
    try:
        before = given_digests(directory)
    except BadListError as error:
        raise PrepareError(f"{error.path}: {error}; mend it, or --replace it") from error
    changed = [
        f"{name} ({given.source})"
        for name, lists in sorted(before.files.items())
        for given in lists
        if now.get(name) != given.sha256
    ]
    if changed:
        rest = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        names = ", ".join(changed[:3])
        raise PrepareError(
            f"{directory} is not as its list of digests says: {names}{rest}; copy it again, or --replace the list if "
            "the files were changed on purpose"
        )


def whole(source: Path) -> tuple[Path, ...]:
    """The weight files of a model that can be prepared. Raises PrepareError, Fault."""
    if not source.is_dir():
        raise PrepareError(f"{source} is no directory: name the model's")
    if left := unfinished(source):
        raise PrepareError(f"{left} tells of a download that is not over: let it finish, or remove that file")
    try:
        # Pickle is read by the converter, which makes nothing but tensors of it.
        weights = check_shape(source, replace(Needs(), pickle=("*",)))
    except OSError as error:
        raise PrepareError(f"{error.filename} cannot be read ({error.strerror}): mend it") from error
    foreign = [path for path in weights if path.suffix not in {".safetensors", *PICKLE_SUFFIXES}]
    if foreign:
        raise PrepareError(f"{foreign[0]} is neither safetensors nor pickled: only those can be prepared")
    return weights


def room_for(place: Path, weights: tuple[Path, ...]) -> None:
    """Raise PrepareError where a copy of `weights` does not fit into `place`."""
    if not place.is_dir():
        raise PrepareError(f"{place} is no directory: make it first")
    need = int(sum(path.stat().st_size for path in weights) * SPARE)
    free = shutil.disk_usage(place).free
    if need > free:
        raise PrepareError(
            f"{place} has {gib(free)} left, the copy takes about {gib(need)}: free some, or name another"
        )


@contextmanager
def drafted(out: Path) -> Iterator[Path]:
    """A hidden directory beside `out` that is gone afterwards, unless it was renamed; also what a kill had left.

    What the disk refuses in the block is raised as PrepareError.
    """
    if out.exists() or out.is_symlink():
        raise PrepareError(f"{out} exists: name a directory that does not, or remove it")
    prefix = f".{out.name}.partial-"
    for left in out.parent.glob(f"{prefix}*"):
        _remove_if_left(left)
    draft = out.parent / f"{prefix}{os.getpid()}"
    try:
        draft.mkdir()
        lock = os.open(draft, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # tells the next run that this one lives
            yield draft
        finally:
            os.close(lock)
    except OSError as error:
        raise _told(error, out) from error
    finally:
        if draft.exists():
            shutil.rmtree(draft, ignore_errors=True)


def _remove_if_left(draft: Path) -> None:
    with contextlib.suppress(OSError):
        lock = os.open(draft, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(draft, ignore_errors=True)
        except BlockingIOError:
            return  # another run is at work on the same target; the rename decides
        finally:
            os.close(lock)


def copy_others(source: Path, draft: Path, weights: tuple[Path, ...]) -> None:
    """Everything that is no weight, links followed; no index, no list of digests, no hidden file, no pickle."""
    skipped = {path.name for path in weights}
    for path in sorted(source.iterdir()):
        weight = path.name in skipped or path.suffix in {".safetensors", *PICKLE_SUFFIXES}
        if weight or path.name.startswith(".") or path.name.endswith(".index.json") or is_list(path.name):
            continue
        if path.is_dir():
            shutil.copytree(path, draft / path.name)
        else:
            shutil.copyfile(path, draft / path.name)


def _convert(
    weights: tuple[Path, ...], draft: Path, dtype: str | None, shard_bytes: int, tell: Callable[[str], None]
) -> None:
    work = Conversion(tuple(str(path) for path in weights), str(draft), dtype, shard_bytes)
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "runtime.weights.prepare.convert"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, PARENT_ENV: str(os.getpid())},
        start_new_session=True,
    ) as process:
        try:
            said = _follow(process, as_json(work), tell)
        finally:
            process.kill()
    if said is not None:
        raise PrepareError(said)


def _follow(process: "subprocess.Popen[str]", work: str, tell: Callable[[str], None]) -> str | None:
    """Pass the work on and hear what comes of it; None: all is written."""
    if process.stdin is None or process.stdout is None or process.stderr is None:
        return "the converter has no pipes"
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(work)
        process.stdin.close()
    done = False
    for line in process.stdout:
        told = json.loads(line)
        if "error" in told:
            return f"{told['error']}" + (": free some space" if told.get("errno") == errno.ENOSPC else "")
        done = told["number"] == told["of"]
        tell(f"wrote {told['file']} ({told['number']} of {told['of']}, {gib(told['bytes'])})")
    code = process.wait()
    if code == 0 and done:
        return None
    last = process.stderr.read().strip().rpartition("\n")[2]
    return f"the converter ended with code {code}: {last or 'out of memory?'}"


def _tell_dtype(draft: Path, dtype: str) -> None:
    path = draft / "config.json"
    config = json.loads(path.read_bytes())
    for name in ("dtype", "torch_dtype"):
        if name in config:
            config[name] = dtype
    if served(draft, None) != dtype and "torch_dtype" not in config:
        config["dtype"] = dtype
    path.write_text(json.dumps(config, indent=2) + "\n")


def _told(error: OSError, out: Path) -> PrepareError:
    fix = "free some space, or name another disk" if error.errno in {errno.ENOSPC, errno.EDQUOT} else "mend it"
    return PrepareError(f"{error.filename or out} cannot be written ({error.strerror}): {fix}")


def _sync(directory: Path) -> None:
    """To the disk before the rename tells that it is whole; the converter has synced the weights."""
    for path in directory.rglob("*"):
        if path.is_file() and path.suffix != ".safetensors":
            with path.open("rb") as file:
                os.fsync(file.fileno())
    _sync_directory(directory)


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
