"""Where a service's model is: `storageUri` and the model argument → a directory of this machine, or a URL to stream."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from activator_ext.adapters.local.documents import Where, Word
from activator_ext.adapters.local.findings import Findings, quoted
from activator_ext.adapters.local.metadata import is_label
from activator_ext.adapters.local.wording import odd_characters

MOUNT = "/mnt/models"
"""Where KServe puts what storageUri names."""
_MOUNTED = re.compile(r"(?<![\w./-])/mnt/models(?![\w.-])")
_STREAMED = ("s3://", "gs://", "az://")
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)


@dataclass(frozen=True)
class Source:
    """`model`: absolute directory or URL. `mount`: the directory that is /mnt/models, None if nothing is there."""

    model: str
    mount: str | None

    def fill(self, text: str) -> str:
        """An argument with /mnt/models replaced by the directory: `--tokenizer=/mnt/models`, JSON values too."""
        mount = self.mount
        return text if mount is None else _MOUNTED.sub(lambda _: mount, text)


def locate(
    model: Word | None,
    storage: Word | None,
    volumes: Mapping[str, Path],
    where: Where,
    findings: Findings,
) -> Source | None:
    """Where the model is; None with an error. `where`: the container, if nothing names a model."""
    if storage is not None:
        directory = _directory(storage, volumes, findings)
        inside = directory if directory is None or model is None else _inside(model, storage, directory, findings)
        return None if inside is None else Source(inside, directory)
    if model is None:
        fix = "Write storageUri: file:///DIRECTORY (or pvc://CLAIM/PATH) under predictor.model."
        findings.error(*where, "nothing says which model to serve", fix)
        return None
    if model.text.startswith(_STREAMED):
        return Source(model.text, None)
    findings.error(*model.where, *_no_directory(model.text))
    return None


def check_exists(model: str, where: Where, findings: Findings) -> None:
    """A directory that is not there yet is a warning: it may be there when the engine starts."""
    if model.startswith(_STREAMED):
        return
    directory = Path(model)
    try:
        if not directory.is_dir():
            findings.warning(*where, f"the directory {quoted(model)} does not exist", "Put the model there.")
        elif not (directory / "config.json").is_file():
            findings.warning(*where, f"{quoted(model)} holds no config.json", "Put the whole model there.")
    except (OSError, ValueError) as error:
        findings.warning(*where, f"the directory {quoted(model)} cannot be looked at ({error})", "Check the path.")


def _directory(storage: Word, volumes: Mapping[str, Path], findings: Findings) -> str | None:
    scheme, _, rest = storage.text.partition("://")
    parts = rest.split("/")
    if not storage.text.isprintable():
        message = f"the path holds {odd_characters(storage.text)}"
        findings.error(*storage.where, message, "Write the directory's real path, in printable characters.")
    elif ".." in parts or "." in parts:
        findings.error(*storage.where, "the path holds '.' or '..'", "Write the directory's real path.")
    elif scheme == "file" and rest.startswith("/"):
        return str(Path(rest))
    elif scheme == "pvc":
        return _in_volume(storage, parts, volumes, findings)
    elif scheme == "file":
        fix = "Write three slashes: file:///DIRECTORY."
        findings.error(*storage.where, f"{quoted(storage.text)} is not an absolute path", fix)
    elif scheme == "hf":
        findings.error(*storage.where, *_download(rest.partition(":")[0]))
    elif storage.text.startswith(_STREAMED):
        fix = f"Remove storageUri and write --model={storage.text[:80]} and --load-format=runai_streamer under args."
        findings.error(*storage.where, "local mode downloads nothing", fix)
    else:
        fix = "Use file:///DIRECTORY or pvc://CLAIM/PATH, or --model=s3://… under args."
        findings.error(*storage.where, f"{quoted(storage.text)} is not served in local mode", fix)
    return None


def _in_volume(storage: Word, parts: list[str], volumes: Mapping[str, Path], findings: Findings) -> str | None:
    claim, inner = parts[0], [part for part in parts[1:] if part]
    if not is_label(claim):
        findings.error(*storage.where, f"{quoted(claim)} is not a claim's name", "Write pvc://CLAIM/PATH.")
        return None
    if claim not in volumes:
        fix = f"Start with --volume {claim}=DIR."
        findings.error(*storage.where, f"no directory is given for the claim '{claim}'", fix)
        return None
    return str(volumes[claim].absolute().joinpath(*inner))


def _inside(model: Word, storage: Word, directory: str, findings: Findings) -> str | None:
    below = model.text.removeprefix(MOUNT)
    if below == model.text or (below and not below.startswith("/")):
        message = f"two models: storageUri {quoted(storage.text)} and {quoted(model.text)}"
        findings.error(*model.where, message, f"Remove storageUri, or write {MOUNT} here.")
        return None
    parts = [part for part in below.split("/") if part]
    if ".." in parts or "." in parts:
        findings.error(*model.where, "the path holds '.' or '..'", "Write the directory's real path.")
        return None
    return str(Path(directory).joinpath(*parts))


def _no_directory(model: str) -> tuple[str, str]:
    if model == MOUNT or model.startswith(f"{MOUNT}/"):
        return (
            f"{quoted(model)} is served, but no storageUri says what is there",
            "Write storageUri: file:///DIRECTORY.",
        )
    if _HUB_ID.fullmatch(model):
        return _download(model)
    fix = f"Write storageUri: file:///DIRECTORY and serve {MOUNT}."
    return f"{quoted(model)} is a path inside an image, which local mode has not", fix


def _download(repository: str) -> tuple[str, str]:
    name = quoted(repository)[1:-1]
    fix = f"Run: hf download {name} --local-dir DIR; then write storageUri: file:///DIR with its absolute path."
    return "local mode downloads nothing from the hub", fix
