"""`pilotlight check`: what is wrong in the user's files, without a running `up`."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import typer

from activator_ext.adapters.local.documents import MAX_BYTES
from activator_ext.adapters.local.findings import listed
from activator_ext.adapters.local.manifests import STDIN, Loaded, load
from activator_ext.app.files import platform_of


def check(files: list[Path], volumes: dict[str, Path], platform: str, *, strict: bool, as_json: bool) -> None:
    """Print every finding; exit code 1 if one is an error, with `strict` also if one is a warning."""
    paths = [path for path in files if str(path) != STDIN]
    # One byte more than is read of a file, so that a longer one is told by its length.
    stdin = sys.stdin.buffer.read(MAX_BYTES + 1) if len(paths) < len(files) else None
    loaded = load(paths, volumes, platform_of(platform), stdin)
    if as_json:
        # Escaped to ASCII: a file's name may hold bytes that are no UTF-8.
        typer.echo(json.dumps([asdict(finding) for finding in loaded.findings]))
    else:
        for finding in loaded.findings:
            typer.echo(str(finding))
        names = listed([str(service.id) for service in loaded.services]) or "none"
        typer.echo(f"{_count(loaded, 'error')}, {_count(loaded, 'warning')}; services: {names}")
    if not loaded.ok or (strict and loaded.findings):
        raise typer.Exit(1)


def _count(loaded: Loaded, severity: str) -> str:
    count = sum(finding.severity == severity for finding in loaded.findings)
    return f"{count} {severity}" if count == 1 else f"{count} {severity}s"
