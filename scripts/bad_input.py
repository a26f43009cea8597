"""Bad input → what `pilotlight check` says of it: the cases behind docs/reference/bad-input.md, and the page.

Each case is written into a directory of its own, as the file `f.yaml` beside a good runtime, and loaded. The page is
what came out; a test compares it with the code, and tests/input holds that no case is silent.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from activator_ext.adapters.local.findings import Finding
from activator_ext.adapters.local.manifests import load

RUNTIME = """\
apiVersion: serving.kserve.io/v1alpha1
kind: ClusterServingRuntime
metadata: {name: vllm}
spec:
  supportedModelFormats: [{name: vllm, autoSelect: true}]
  containers:
  - {name: kserve-container, image: "vllm/vllm-openai:v0.32.0", args: [/mnt/models]}
"""
SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: chat}
spec:
  predictor:
    minReplicas: 0
    model:
      modelFormat: {name: vllm}
      storageUri: pvc://models/tiny
"""
POLICY = """\
apiVersion: pilotlight.dev/v1alpha1
kind: PrewarmPolicy
metadata: {name: chat}
spec:
  serviceRef: {name: chat}
"""


@dataclass(frozen=True)
class Case:
    """`shown`: the input as the page shows it. `given`: the file's bytes, or what makes the path to load."""

    shown: str
    given: bytes | Callable[[Path], Path]


def answers(case: Case, root: Path) -> tuple[Finding, ...]:
    """What is said of the case. `root`: an empty directory to write it into."""
    models = root / "models"
    (models / "tiny").mkdir(parents=True)
    (models / "tiny" / "config.json").write_text("{}", encoding="ascii")
    runtime = root / "runtime.yaml"
    runtime.write_text(RUNTIME, encoding="ascii")
    if callable(case.given):
        path = case.given(root)
    else:
        path = root / "f.yaml"
        path.write_bytes(case.given)
    return load([runtime, path], {"models": models}).findings


def page() -> str:
    """The page's body."""
    parts = [
        "What `pilotlight check` says of input that is wrong, or that a cluster reads otherwise than it looks. Each "
        "was the file `f.yaml` beside a good runtime, or stood in a good InferenceService or PrewarmPolicy."
    ]
    for title, cases in CASES.items():
        rows = "\n".join(_row(case) for case in cases)
        parts.append(f"## {title}\n\n| input | answer |\n| --- | --- |\n{rows}")
    return "\n\n".join(parts)


def _row(case: Case) -> str:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        said = "<br>".join(_code(str(finding).replace(f"{root}/", "")) for finding in answers(case, root))
    return f"| {case.shown} | {said} |"


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text.replace('|', '¦')}{pad}{fence}"


def _text(shown: str, text: str | bytes) -> Case:
    return Case(shown, text if isinstance(text, bytes) else text.encode())


def _in_service(*lines: str) -> Iterator[Case]:
    """Each line in place of the service's `minReplicas: 0`."""
    for line in lines:
        yield _text(_code(line), SERVICE.replace("minReplicas: 0", line))


def _in_model(*lines: str) -> Iterator[Case]:
    for line in lines:
        yield _text(_code(line), f"{SERVICE}      {line}\n")


def _in_policy(*lines: str) -> Iterator[Case]:
    for line in lines:
        yield _text(_code(line), f"{SERVICE}---\n{POLICY}  {line}\n")


def _named(*names: tuple[str, str]) -> Iterator[Case]:
    for shown, name in names:
        yield _text(shown, SERVICE.replace("name: chat", f"name: {name}"))


def _link(to: str) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        (root / "f.yaml").symlink_to(to)
        return root / "f.yaml"

    return make


def _pipe(root: Path) -> Path:
    os.mkfifo(root / "f.yaml")
    return root / "f.yaml"


def _empty(root: Path) -> Path:
    (root / "empty").mkdir()
    return root / "empty"


_BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{now}: &{now} [{', '.join([f'*{before}'] * 10)}]\n" for before, now in zip("abcdefgh", "bcdefghi", strict=True)
)

CASES: Mapping[str, Sequence[Case]] = {
    "What is given as FILE": [
        Case("a name that does not exist", lambda root: root / "f.yaml"),
        Case("a link to nothing", _link("gone.yaml")),
        Case("a link to itself", _link("f.yaml")),
        Case("a pipe", _pipe),
        Case("a device, `/dev/zero`", lambda _: Path("/dev/zero")),
        Case("a directory without YAML", _empty),
        Case("`-` given to `up`", lambda _: Path("-")),
        _text("an empty file", ""),
        _text("10 MB", SERVICE + "#" * (10 * 2**20)),
    ],
    "Text": [
        _text("UTF-16", SERVICE.encode("utf-16")),
        _text("UTF-16 without a byte order mark", SERVICE.encode("utf-16-le")),
        _text("Latin-1", f"# caf\u00e9\n{SERVICE}".encode("latin-1")),
        _text("a byte order mark inside, as `cat a b` makes it", f"{SERVICE}---\n\ufeff{POLICY}"),
        _text("a control character", SERVICE.replace("chat", "\x07chat")),
        _text("a tab as indentation", SERVICE.replace("  predictor", "\tpredictor")),
        _text("spaces that are none", SERVICE.replace("  predictor", "\u00a0\u00a0predictor")),
    ],
    "YAML": [
        _text("a bracket left open", SERVICE.replace("{name: chat}", "{name: chat")),
        _text("a key twice", SERVICE.replace("    minReplicas: 0\n", "    minReplicas: 0\n    minReplicas: 1\n")),
        _text("an unknown alias", SERVICE.replace("{name: chat}", "*base")),
        _text("a merge conflict", "<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> theirs\n"),
        _text("a Helm template", "{{- if .Values.chat }}\nkind: InferenceService\n{{- end }}\n"),
        _text("a tag that would run code", "a: !!python/object/apply:os.system [x]\n"),
        _text("billion laughs", _BOMB),
        _text("one text of 100 kB, 90,000 times", f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 90_000}]\n"),
        _text("100,000 brackets deep", "[" * 100_000),
        _text("an alias that contains itself", "a: &a\n  b: *a\n"),
        _text("a list", "- a\n"),
        _text("a number of 4,000 digits", f"a: {'1' * 4000}\n"),
    ],
    "Words that YAML reads otherwise than they look": [
        *_in_model("env: [{name: HF_X, value: no}]", "env: [{name: HF_X, value: 1e3}]"),
        *_in_service("minReplicas: 010", "minReplicas: 1:30", "minReplicas: .nan", 'minReplicas: "1"'),
        *_in_service("minReplicas: 99999999999999999999", "minReplicas: 1.5", "labels: {on: x}"),
        *_named(
            ("`name: no`", "no"), ("`name: 123`", "123"), ("`name: null`", "null"), ("`name: 2026-01-01`", "2026-01-01")
        ),
    ],
    "Names": [
        *_named(
            ("`../../etc`", "../../etc"), ("`a%2fb`", "a%2fb"), ("64 letters", "a" * 64), ("a line end", '"chat\\n"')
        ),
        *_named(("NUL", '"a\\0b"'), ("an escape sequence", '"\\e[31mred"'), ("right-to-left", '"\\u202Etahc"')),
        *_named(("a Cyrillic `а`", '"ch\\u0430t"'), ("a full-width `ａ`", "ａ"), ("`Chat`", "Chat"), ("empty", '""')),
        _text("`namespace: ..`", SERVICE.replace("name: chat", "name: chat, namespace: ..")),
        *_in_model('env: [{name: "HF_A=B", value: x}]', 'args: ["--served-model-name=a\\nb"]', "runtime: ../vllm"),
    ],
    "Fields": [
        *_in_service(
            "minReplica: 0", "min_replicas: 0", "storageUri: pvc://models/tiny", "zzz: 1", "minR\u0435plicas: 0"
        ),
        *_in_service("tolerations: [{key: a, operater: Exists}]", "nodeSelector: {gpu: true}", "volumes: {name: a}"),
        *_in_service("canaryTrafficPercent: 10", "sklearn: {storageUri: x}"),
        *_in_service(
            'annotations: {pilotlight.dev/allow-pickle: "*.bin"}',
            "annotations: {pilotlight.dev/allow-pickle: pytorch_model*.bin}",
            "annotations: {pilotlight.dev/allow-pickel: a.bin}",
        ),
        *_in_model("resources: {limits: {memory: 4GB}}", "readinessProbe: {httpGet: {prot: 80}}"),
        _text("`kind: InferenceServices`", SERVICE.replace("InferenceService", "InferenceServices")),
        _text("`serving.kserve.io/v1alpha1`", SERVICE.replace("v1beta1", "v1alpha1")),
        _text(
            "a runtime with `initContainers`",
            SERVICE + "---\n" + RUNTIME.replace("name: vllm}", "name: b}", 1) + "  initContainers: []\n",
        ),
        _text("the same service twice", f"{SERVICE}---\n{SERVICE}"),
    ],
    "Models and command lines": [
        _text("a directory outside", SERVICE.replace("models/tiny", "models/../etc")),
        _text("`storageUri: s3://bucket/model`", SERVICE.replace("pvc://models/tiny", "s3://bucket/model")),
        _text("`storageUri: hf://org/model`", SERVICE.replace("pvc://models/tiny", "hf://org/model")),
        _text("a claim that nobody gave", SERVICE.replace("models/tiny", "other/tiny")),
        _text("a format that no runtime has", SERVICE.replace("{name: vllm}", "{name: sklearn}")),
        *_in_model("args: [--host=0.0.0.0]", "args: [--api-key=x]", "args: [--config=x]", "args: ['{{.Nmae}}']"),
        *_in_model(
            "env: [{name: LD_PRELOAD, value: /x.so}]", "env: [{name: MY_OWN, value: x}]", "command: [sh, -c, vllm]"
        ),
        _text(
            "a variable that unfolds to 10 GB",
            SERVICE
            + "      env:\n      - {name: HF_0, value: xxxxxxxxxx}\n"
            + "".join(f"      - {{name: HF_{n}, value: {f'$(HF_{n - 1})' * 10}}}\n" for n in range(1, 10)),
        ),
    ],
    "PrewarmPolicy": [
        *_in_policy("coldstartCost: 5m", "coldStartCost: soon", "coldStartCost: 300", "bounds: {min: 3, max: 2}"),
        *_in_policy('schedules: [{name: a, readyBy: "0 9 * *", until: "0 18 * * *"}]'),
        *_in_policy('schedules: [{name: a, timeZone: Europe/Madird, readyBy: "0 9 * * *", until: "0 18 * * *"}]'),
        *_in_policy(
            "forecast: {mode: act}", "objective: {monthlyBudget: '300'}", "golden: {maxTokens: 2, tokens: [1, 2, 3]}"
        ),
        _text(
            "a policy for a service that is not there",
            SERVICE + "---\n" + POLICY.replace("{name: chat}\n", "{name: chta}\n"),
        ),
    ],
}
