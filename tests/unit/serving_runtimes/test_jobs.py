"""The Job that compiles ahead: its command runs, and it builds for the engines that the runtime's examples start."""

import shlex
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from runtime.cache.cli import app
from runtime.cache.cli.matrix import read_matrix
from runtime.cache.cli.wanted import spec_of
from runtime.engine.argv import engine_arguments
from runtime.host.engine_options import ROOT, read_options
from tests.fakes.model import fake_command, make_model
from tests.unit.serving_runtimes.test_manifests import CONTAINER, HOME, example, pod_argv

ITEMS: list[dict[str, Any]] = yaml.safe_load((HOME / "jobs" / "cache-build.yaml").read_text())["items"]
SHAPES, *JOBS = ITEMS
POD: dict[str, Any] = JOBS[0]["spec"]["template"]["spec"]
BUILD: dict[str, Any] = POD["containers"][0]


def test_one_job_for_each_gpu_type_else_alike() -> None:
    assert [job["kind"] for job in JOBS] == ["Job", "Job"]
    assert len({job["metadata"]["name"] for job in JOBS}) == 2
    pods = [dict(job["spec"]["template"]["spec"]) for job in JOBS]
    gpus = [pod.pop("nodeSelector")["nvidia.com/gpu.product"] for pod in pods]
    assert len(set(gpus)) == 2
    assert pods[0] == pods[1]


def test_it_is_the_serving_pod_but_for_its_command() -> None:
    """Image, cache root and room: what differs here makes another fingerprint, or another failure."""
    assert BUILD["image"] == CONTAINER["image"]
    assert BUILD["envFrom"] == CONTAINER["envFrom"]
    assert BUILD["securityContext"] == CONTAINER["securityContext"]
    assert BUILD["resources"] == CONTAINER["resources"]
    assert str(ROOT) in {mount["mountPath"] for mount in BUILD["volumeMounts"]}
    assert {mount["name"] for mount in BUILD["volumeMounts"]} == {volume["name"] for volume in POD["volumes"]}
    assert POD["restartPolicy"] == "Never"


def test_the_key_of_a_secret_is_readable_by_the_pods_group_alone() -> None:
    (secret,) = (volume["secret"] for volume in POD["volumes"] if "secret" in volume)
    assert secret["defaultMode"] == 0o440, "0644, the default, is refused: others may use it"
    assert POD["securityContext"]["fsGroup"] == 10001


def test_its_command_builds_both_shapes(tmp_path: Path) -> None:
    assert BUILD["command"][-3:] == ["-m", "runtime.cache.cli", "build"]
    for name in ("models", "shapes", "signing", "trust", "work"):
        (tmp_path / name).mkdir()
    make_model(tmp_path / "models" / "chat", compiles=True)
    (tmp_path / "shapes" / "shapes.yaml").write_text(SHAPES["data"]["shapes.yaml"])
    (tmp_path / "trust" / "trust.yaml").write_text("keys: []\n")
    runner = CliRunner()
    assert runner.invoke(app, ["keygen", str(tmp_path / "signing" / "build.key")]).exit_code == 0
    places = {"/mnt/models": "models", "/etc/shapes": "shapes", "/etc/signing": "signing", "/etc/trust": "trust"}
    here = {**places, "/var/lib/pilotlight": "work", "s3://models/compiled": "far"}
    args = []
    for arg in BUILD["args"]:
        name, equals, value = arg.rpartition("=")
        for place, folder in here.items():
            value = value.replace(place, str(tmp_path / folder))
        args.append(f"{name}{equals}{value}" if arg != "--platform=cuda" else "--platform=cpu")

    done = runner.invoke(
        app,
        ["build", *args, "--engine-command", shlex.join(fake_command())],
        env={"PILOTLIGHT_STATE": str(tmp_path / "work" / "state")},
    )

    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "far").glob("bundles/*/*.bundle"))) == 2


def test_a_pod_of_the_example_starts_one_of_its_shapes(tmp_path: Path) -> None:
    """By the arguments that an engine is started with: `pvc.yaml` serves the model that is built for."""
    file = tmp_path / "shapes.yaml"
    file.write_text(SHAPES["data"]["shapes.yaml"])
    pod = read_options(pod_argv(example("pvc.yaml")), {}).spec
    built = [spec_of(str(make_model(tmp_path / "m")), each.args, each.env, "cpu") for each in read_matrix(file)]
    given = [set(engine_arguments(spec, 1, None)) - set(spec.served_names) for spec in built]
    served = pod.model_copy(update={"platform": "cpu", "drain_timeout_s": built[0].drain_timeout_s})
    assert set(engine_arguments(served, 1, None)) - set(pod.served_names) in given
