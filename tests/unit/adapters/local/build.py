"""Files for these tests: a runtime and a service that load without a finding, and what `load` says of a text."""

from pathlib import Path
from textwrap import dedent, indent

from activator_ext.adapters.local.manifests import Loaded, load

RUNTIME = """\
apiVersion: serving.kserve.io/v1alpha1
kind: ClusterServingRuntime
metadata:
  name: vllm
spec:
  supportedModelFormats:
    - name: huggingface
      autoSelect: true
  containers:
    - name: kserve-container
      image: vllm/vllm-openai:v0.32.0
      command: [vllm, serve]
      args: [/mnt/models]
"""


def service(name: str = "chat", *, namespace: str = "default", predictor: str = "", model: str = "") -> str:
    """An InferenceService; `predictor` and `model` are lines added to these mappings (predictor's from line 7)."""
    return (
        "apiVersion: serving.kserve.io/v1beta1\n"
        "kind: InferenceService\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\n"
        "spec:\n"
        "  predictor:\n"
        "    minReplicas: 0\n"
        f"{indent(dedent(predictor), ' ' * 4)}"
        "    model:\n"
        "      modelFormat: {name: huggingface}\n"
        "      storageUri: pvc://models/tiny\n"
        f"{indent(dedent(model), ' ' * 6)}"
    )


def policy(spec: str = "", *, name: str = "chat", namespace: str = "default", ref: str | None = "chat") -> str:
    """A PrewarmPolicy; `spec` are lines added to its spec (from line 6 with a serviceRef, else from line 5)."""
    reference = "" if ref is None else f"  serviceRef: {{name: {ref}}}\n"
    return (
        "apiVersion: pilotlight.dev/v1alpha1\n"
        "kind: PrewarmPolicy\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\n"
        "spec:\n"
        f"{reference}{indent(dedent(spec), '  ')}"
    )


def custom(container: str, storage: str = "pvc://models/tiny") -> str:
    """A service with a container of its own; `container` are lines of it, from line 9."""
    lines = "".join(f"      {line}\n" for line in container.splitlines())
    env = f"      env: [{{name: STORAGE_URI, value: '{storage}'}}]\n" if storage else ""
    return (
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: chat}\nspec:\n"
        f"  predictor:\n    minReplicas: 0\n    containers:\n    - name: kserve-container\n{lines}{env}"
    )


class Files:
    """A directory of YAML files beside a directory that stands for the claim `models`, with one model in it."""

    def __init__(self, root: Path) -> None:
        self.yaml = root / "yaml"
        self.models = root / "models"
        self.yaml.mkdir()
        (self.models / "tiny").mkdir(parents=True)
        (self.models / "tiny" / "config.json").write_text("{}")

    def write(self, **files: str | bytes) -> None:
        """Each keyword becomes a file NAME.yaml."""
        for name, content in files.items():
            path = self.yaml / f"{name}.yaml"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def load(self, **files: str | bytes) -> Loaded:
        """Write the files and load the directory."""
        self.write(**files)
        return load([self.yaml], {"models": self.models})

    def said(self, **files: str | bytes) -> list[str]:
        """The findings as printed, without the directories of this test."""
        return [self.short(str(finding)) for finding in self.load(**files).findings]

    def short(self, text: str) -> str:
        """`text` without the directories of this test."""
        return text.replace(f"{self.yaml}/", "").replace(str(self.models), "MODELS")
