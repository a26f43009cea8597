"""The documents are true of the tree: links resolve, commands exist, files parse, the reference is the code's."""

import re
from pathlib import Path

import pytest
import typer.main
import yaml

from activator_ext.adapters.local.manifests import load
from activator_ext.app.cli import app
from runtime.contract import Stage
from scripts.reference import DIRECTORY, MEASURED, STAGES, pages

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
WRITTEN = [path for path in DOCUMENTS if path.parent != DIRECTORY]


def code_blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_links_resolve(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith(("http://", "https://"))]

    broken = [link for link in links if not (path.parent / link.partition("#")[0]).exists()]

    assert broken == []


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached, ahead = set(), [ROOT / "README.md"]
    while ahead:
        path = ahead.pop()
        if path in reached or path.suffix != ".md":
            continue
        reached.add(path)
        targets = re.findall(r"\]\(([^)#\s]+\.md)", path.read_text())
        ahead += [(path.parent / target).resolve() for target in targets if "://" not in target]

    assert set(DOCUMENTS) - reached == set()


@pytest.mark.parametrize("path", WRITTEN, ids=[str(path.relative_to(ROOT)) for path in WRITTEN])
def test_commands_exist(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    commands = getattr(typer.main.get_command(app), "commands", {})
    shown = "\n".join(code_blocks(path.read_text(), "console"))

    for target in re.findall(r"\bmake ([a-z-]+)", shown + "".join(re.findall(r"`[^`\n]+`", path.read_text()))):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"
    for command in re.findall(r"^ *\$ (?:\S*/)?pilotlight ([a-z-]+)\b", shown, re.MULTILINE):
        assert command in commands, f"pilotlight {command}"


@pytest.mark.parametrize("path", WRITTEN, ids=[str(path.relative_to(ROOT)) for path in WRITTEN])
def test_yaml_in_documents_is_yaml(path: Path) -> None:
    for block in code_blocks(path.read_text(), "yaml"):
        list(yaml.safe_load_all(block))


def test_the_demo_manifests_are_served(tmp_path: Path) -> None:
    loaded = load([ROOT / "demo" / "manifests"], {"models": tmp_path}, "cpu")

    assert [finding for finding in loaded.findings if finding.severity == "error"] == []
    (service,) = loaded.services
    assert str(service.id) == "demo/chat"
    assert (service.policy.bounds.min, service.policy.bounds.max) == (0, 1)
    assert service.policy.cold_start_cost_s == 20
    assert service.policy.prior_lead_s == 75
    assert service.spec.model == str(tmp_path / "tiny-a")
    assert "--dtype=bfloat16" in service.spec.args


def test_every_make_target_has_its_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    explained = set(re.findall(r"^([a-z-]+):.*## \S", makefile, re.MULTILINE))
    (phony,) = re.findall(r"^\.PHONY: (.*)", makefile, re.MULTILINE)

    assert targets == explained == set(phony.split())


def test_the_reference_is_what_the_code_says() -> None:
    written = {path.name: path.read_text() for path in DIRECTORY.iterdir()}
    wanted = pages()

    assert sorted(written) == sorted([*wanted, *MEASURED])
    for name, text in wanted.items():
        assert written[name] == text, f"docs/reference/{name} is old: run `make reference`"


def test_every_stage_is_explained() -> None:
    assert set(STAGES) == set(Stage)


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_lines_end_where_they_end(path: Path) -> None:
    text = path.read_text()

    assert not re.search(r"[ \t]+$", text, re.MULTILINE)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
