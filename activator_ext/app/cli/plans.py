"""`pilotlight preview`: when a service will be warm, from the running `up` or from files alone."""

from datetime import datetime
from pathlib import Path

import typer

from activator_ext.adapters.local.manifests import load
from activator_ext.app.cli.client import ApiClient, service_named
from activator_ext.app.cli.failures import CliError
from activator_ext.app.cli.render import preview_summary, preview_table
from activator_ext.app.cli.terminal import console, now
from activator_ext.app.files import platform_of
from activator_ext.app.preview import preview_view
from activator_ext.app.views import PreviewView
from activator_ext.core.leadtime import LeadTimes
from activator_ext.core.model import StartKind


def preview(
    state: Path, service: str, *, days: float, files: list[Path], volumes: dict[str, Path], platform: str, as_json: bool
) -> None:
    """When a service will be warm, from the running `up` or from files alone."""
    if files:
        view = preview_of_files(service, files, volumes, platform, days, now())
        text = view.model_dump_json(by_alias=True)
    else:
        with ApiClient(state) as client:
            answer = client.preview(client.resolve(service), days)
        view, text = answer.value, answer.text
    if as_json:
        typer.echo(text)
        return
    if view.windows:
        console().print(preview_table(view))
    typer.echo(preview_summary(view))


def preview_of_files(
    service: str, files: list[Path], volumes: dict[str, Path], platform: str, days: float, begin: datetime
) -> PreviewView:
    """The plan that the files announce, with the policy's own lead time: no start has been measured here."""
    loaded = load(files, volumes, platform_of(platform))
    for finding in loaded.findings:
        typer.echo(str(finding), err=True)
    known = {each.id: each.policy for each in loaded.services}
    asked = service_named(service, lambda: list(known))
    if asked not in known:
        raise CliError(
            f"no service {asked} can be read from these files; there are: {', '.join(map(str, known)) or 'none'}"
        )
    policy = known[asked]
    return preview_view(asked, policy, LeadTimes((), policy.prior_lead_s), StartKind.COLD_NODE, begin, days)
