"""The runtime and its examples: nothing that Knative or KServe refuse, and local mode reads them as a pod does."""

import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from activator_ext.adapters.local.manifests import load
from runtime.engine.argv import allowed_env
from runtime.host.dedicated import BEAT_S
from runtime.host.engine_options import DRAIN_S, LET_GO_S, PORT, ROOT, read_options
from runtime.host.reporter import AUDIENCE, TOKEN
from runtime.ready.gate_door import READY_PATH

HOME = Path(__file__).resolve().parents[3] / "serving-runtimes"
RUNTIME: dict[str, Any] = yaml.safe_load((HOME / "pilotlight-vllm.yaml").read_text())
CONTAINER: dict[str, Any] = RUNTIME["spec"]["containers"][0]
EXAMPLES = sorted(path.name for path in (HOME / "examples").glob("*.yaml") if path.name != "stores.yaml")


def example(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((HOME / "examples" / name).read_text())
    return loaded


def pod_argv(service: dict[str, Any]) -> list[str]:
    """The arguments as KServe merges them."""
    names = {"{{.Name}}": service["metadata"]["name"], "{{.Namespace}}": service["metadata"]["namespace"]}
    words = [*CONTAINER["args"], *service["spec"]["predictor"]["model"].get("args", [])]
    for placeholder, value in names.items():
        words = [word.replace(placeholder, value) for word in words]
    return words


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_pod_and_local_mode_read_the_same_of_it(name: str, tmp_path: Path) -> None:
    for model in ("chat", "large"):
        (tmp_path / model).mkdir()
    loaded = load([HOME / "pilotlight-vllm.yaml", HOME / "examples" / name], {"models": tmp_path}, "cuda")
    assert loaded.ok, [str(finding) for finding in loaded.findings]
    local = loaded.services[0].spec
    pod = read_options(pod_argv(example(name)), {}).spec
    assert pod.service == local.service
    assert pod.served_names == local.served_names
    assert pod.args == local.args
    mounted = example(name)["spec"]["predictor"]["model"].get("storageUri")
    assert pod.model == ("/mnt/models" if mounted else local.model)


@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_is_downloaded_before_a_stream(name: str) -> None:
    model = example(name)["spec"]["predictor"]["model"]
    if any(arg.startswith("--model=") for arg in model.get("args", [])):
        assert "storageUri" not in model
        assert "storage" not in model
    else:
        assert model["storageUri"].startswith("pvc://")


def test_what_knative_refuses_is_not_in_the_runtime() -> None:
    assert "lifecycle" not in CONTAINER, "no preStop: SIGTERM drains"
    assert "startupProbe" not in CONTAINER, "it turns off the activator's early answer"
    assert "terminationGracePeriodSeconds" not in RUNTIME["spec"]
    assert len(CONTAINER["ports"]) == 1
    mounts = {mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert not mounts & {"/", "/dev", "/tmp", "/var", "/var/log"}
    scratch = [volume for volume in RUNTIME["spec"]["volumes"] if volume["name"] != "pilotlight-token"]
    assert all("emptyDir" in volume and "sizeLimit" in volume["emptyDir"] for volume in scratch)


def test_the_token_is_for_the_controller_alone_and_where_it_is_looked_for() -> None:
    (volume,) = [each for each in RUNTIME["spec"]["volumes"] if each["name"] == "pilotlight-token"]
    source, ca = volume["projected"]["sources"]
    token = source["serviceAccountToken"]
    assert ca["configMap"]["optional"] is True, "a public certificate needs none"
    assert [item["path"] for item in ca["configMap"]["items"]] == ["ca.crt"]
    assert token["audience"] == AUDIENCE
    (mount,) = [each for each in CONTAINER["volumeMounts"] if each["name"] == "pilotlight-token"]
    assert Path(mount["mountPath"]) / token["path"] == TOKEN
    assert mount["readOnly"] is True


def test_what_the_runtime_says_is_what_the_engine_does() -> None:
    assert CONTAINER["ports"][0]["containerPort"] == PORT
    probe = CONTAINER["readinessProbe"]
    assert (probe["httpGet"]["path"], probe["httpGet"]["port"]) == (READY_PATH, PORT)
    assert probe["periodSeconds"] == 1
    assert str(ROOT) in {mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert CONTAINER["securityContext"]["runAsNonRoot"] is True
    grace = example("standard.yaml")["spec"]["predictor"]["terminationGracePeriodSeconds"]
    assert grace >= LET_GO_S + DRAIN_S + 15, "else the kubelet kills what still drains"


def test_liveness_looks_at_the_beat(tmp_path: Path) -> None:
    probe = CONTAINER["livenessProbe"]
    command = [word.replace(str(ROOT), str(tmp_path)) for word in probe["exec"]["command"]]
    beat = tmp_path / "beat"

    def lives() -> bool:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    assert not lives(), "no beat, no life"
    beat.touch()
    assert lives()
    subprocess.run(["touch", "-d", "2 minutes ago", str(beat)], check=True)
    assert not lives()
    assert BEAT_S * 3 < 60


def test_what_the_examples_of_stores_set_is_known() -> None:
    said = subprocess.run(
        ["grep", "-o", "PILOTLIGHT_[A-Z_]*", str(HOME.parent / "runtime/host/engine_options.py")],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    for document in yaml.safe_load_all((HOME / "examples" / "stores.yaml").read_text()):
        for name in {**document.get("data", {}), **document.get("stringData", {})}:
            assert name in said or allowed_env(name), name


def test_the_containerfile_copies_what_build_gathers() -> None:
    """Each source of COPY is in the context; the engine's command is the one that the runtime calls."""
    text = (HOME / "Containerfile").read_text()
    build = (HOME / "build").read_text()
    for line in text.splitlines():
        if line.startswith("COPY "):
            for source in line.split()[1:-1]:
                assert source.split("/")[0] in build, source
    assert f'ENTRYPOINT ["{CONTAINER["command"][0]}"]' in text
    project = tomllib.loads((HOME.parent / "pyproject.toml").read_text())["project"]
    assert project["scripts"][CONTAINER["command"][0]] == "runtime.host.dedicated:main", "pip writes it"
    assert f"PILOTLIGHT_ROOT={ROOT}" in text
    assert "USER 10001:0" in text


@pytest.mark.parametrize("script", ["install.sh", "build"])
def test_the_scripts_are_sh(script: str) -> None:
    subprocess.run(["sh", "-n", str(HOME / script)], check=True)


@pytest.mark.parametrize(
    ("words", "says"),
    [("", "build IMAGE BASE_DIGEST"), ("image v0.32.0", "is no digest"), ("image sha256:12", "is no digest")],
)
def test_build_says_what_it_needs(words: str, says: str) -> None:
    done = subprocess.run([HOME / "build", *shlex.split(words)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert says in done.stderr


def test_install_takes_no_tag() -> None:
    done = subprocess.run(
        ["sh", HOME / "install.sh", "x.whl", "vllm/vllm-openai:v0.32.0"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "name it by digest" in done.stderr
