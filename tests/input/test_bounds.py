"""Hostile files end: each is read within processor seconds and memory that a broken bound exceeds by far.

Read in one process of its own, under limits that the kernel holds: 20 s of processor time for a file (the slowest takes
about 2) and 2 GiB of memory.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from activator_ext.adapters.local.findings import MOST_PER_FILE
from scripts.bad_input import POLICY, RUNTIME, SERVICE

READ = """
import json, resource, sys
from pathlib import Path
from activator_ext.adapters.local.manifests import load
resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))
for name in sys.argv[1:]:
    spent_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    resource.setrlimit(resource.RLIMIT_CPU, (int(spent_s) + 20, resource.RLIM_INFINITY))
    findings = load([Path(name)], {"models": Path("/")}).findings
    print(json.dumps([len(findings), sum(len(str(finding)) for finding in findings)]), flush=True)
"""


HOSTILE = {
    "aliases of one long text": f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 90_000}]\n",
    "merges of merges": "a: &a {x: 1}\n"
    + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1 if n else str()}'] * 10)}]}}\n" for n in range(12)),
    "deep": "[" * 1_000_000,
    "documents": "--- a\n" * 40_000,
    "unknown keys": SERVICE + "".join(f"    minReplicaz{n}: 1\n" for n in range(15_000)),
    "unknown keys in a pod": SERVICE.replace(
        "    model:", "    affinity:\n" + "".join(f"      nodeAffinit{n}: 1\n" for n in range(15_000)) + "    model:"
    ),
    "variables of variables": f"{RUNTIME}---\n{SERVICE}      env:\n      - {{name: HF_0, value: xxxxxxxxxx}}\n"
    + "".join(f"      - {{name: HF_{n}, value: {f'$(HF_{n - 1})' * 10}}}\n" for n in range(1, 12)),
    "templates without end": f"{RUNTIME}---\n{SERVICE}      args: ['{'{{' * 400_000}']\n",
    "policies for one service": f"{RUNTIME}---\n{SERVICE}---\n"
    + "---\n".join(POLICY.replace("metadata: {name: chat}", f"metadata: {{name: p{n}}}") for n in range(1000)),
    "services of one name": f"{RUNTIME}---\n"
    + "---\n".join(SERVICE.replace("{name: chat}", f"{{name: chat, namespace: n{n}}}") for n in range(1000)),
    "one service, often": f"{RUNTIME}---\n" + "---\n".join([SERVICE] * 1000),
    "a long number": "a: " + "1" * 1_000_000,
    "a long word of number signs": "a: -0" + "1_" * 500_000,
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """Per file: how many findings, and how many characters they are."""
    folder = tmp_path_factory.mktemp("hostile")
    paths: list[Path] = []
    for index, text in enumerate(HOSTILE.values()):
        paths.append(folder / f"{index}.yaml")
        paths[-1].write_text(text)
    done = subprocess.run([sys.executable, "-c", READ, *paths], capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    unread = list(HOSTILE)[len(lines) :]
    assert done.returncode == 0, f"it ended at {unread[:1]}: status {done.returncode} {done.stderr[-500:]}"
    return dict(zip(HOSTILE, lines, strict=True))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_ends_with_few_findings(answers: dict[str, list[int]], name: str) -> None:
    count, length = answers[name]
    assert 1 <= count <= 2 * (MOST_PER_FILE + 1)
    assert length < 1000 * count


@pytest.mark.prove
def test_a_directory_of_10000_files(tmp_path: Path) -> None:
    """About 8 s of one core; every service is found, and each file's warning."""
    for n in range(10_000):
        (tmp_path / f"{n}.yaml").write_text(SERVICE.replace("name: chat", f"name: chat{n}"))
    (tmp_path / "runtime.yaml").write_text(RUNTIME)
    command = [sys.executable, "-m", "activator_ext.app.cli", "check", str(tmp_path), "--volume", f"models={tmp_path}"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert len(json.loads(done.stdout)) == 10_000
