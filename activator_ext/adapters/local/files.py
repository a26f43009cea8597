"""The user's paths → YAML files and their bytes; what cannot be read becomes a finding."""

from collections.abc import Sequence
from pathlib import Path

from activator_ext.adapters.local.documents import MAX_BYTES
from activator_ext.adapters.local.findings import Findings


def yaml_files(paths: Sequence[Path], findings: Findings) -> list[Path]:
    """The files that `paths` mean, each once: a directory's *.yaml and *.yml, sorted, not those of its directories."""
    files: dict[Path, Path] = {}
    for path in paths:
        try:
            if path.is_dir():
                found = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml") and p.name[0] != ".")
                if not found:
                    findings.error(str(path), 1, "", "the directory holds no *.yaml or *.yml", "Name another one.")
            elif path.is_file():
                found = [path]
            else:
                found = []
                findings.error(str(path), 1, "", "there is no such file or directory", "Check the path.")
            for file in found:
                files.setdefault(file.resolve(), file)
        except (OSError, ValueError, RuntimeError) as error:
            findings.error(str(path), 1, "", f"it cannot be looked at ({error})", "Check the path and its rights.")
    return list(files.values())


def content(file: Path, findings: Findings) -> bytes:
    """What the file holds, at most one byte more than is allowed; nothing, with an error, if it cannot be read."""
    try:
        if file.is_file():  # not a pipe, which would never end
            with file.open("rb") as stream:
                return stream.read(MAX_BYTES + 1)
        findings.error(str(file), 1, "", "it is not a file", "Remove it from the directory, or check its link.")
    except OSError as error:
        findings.error(str(file), 1, "", f"it cannot be read ({error.strerror})", "Check its rights.")
    return b""
