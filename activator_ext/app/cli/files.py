"""`pilotlight check`: what is wrong in the user's files, without a running `up`."""

import json
from dataclasses import asdict
from pathlib import Path

import typer

from activator_ext.adapters.local.manifests import Loaded, load
from activator_ext.app.files import platform_of


def check(files: list[Path], volumes: dict[str, Path], platform: str, *, as_json: bool) -> None:
    """Print every finding; exit code 1 if one is an error."""
    loaded = load(files, volumes, platform_of(platform))
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in loaded.findings], ensure_ascii=False))
    else:
        for finding in loaded.findings:
            typer.echo(str(finding))
        names = ", ".join(str(service.id) for service in loaded.services) or "none"
        typer.echo(f"{_count(loaded, 'error')}, {_count(loaded, 'warning')}; services: {names}")
    if not loaded.ok:
        raise typer.Exit(1)


def _count(loaded: Loaded, severity: str) -> str:
    count = sum(finding.severity == severity for finding in loaded.findings)
    return f"{count} {severity}" if count == 1 else f"{count} {severity}s"
