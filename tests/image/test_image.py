"""The Containerfile built on a bare Debian 12 in place of the vLLM image, and what runs in what came of it.

What this cannot show: the official image itself (it is not fetched), CUDA, and Python packages that only it has.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.fakes.model import make_model
from tests.serving import free_port, wait_for

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "serving-runtimes"
TOOLS = {"buildah": "buildah", "mmdebstrap": "mmdebstrap", "unshare": "util-linux"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DIGEST = "sha256:" + "5" * 64
LACKS = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]

pytestmark = [
    pytest.mark.prove,
    pytest.mark.skipif(bool(LACKS), reason=f"not installed: apt-get install {' '.join(LACKS)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it builds and enters a root directory"),
]


class Builder:
    """buildah with a store of its own: what is built leaves no trace on the machine."""

    def __init__(self, root: Path) -> None:
        self._options = ("--root", str(root / "images"), "--runroot", str(root / "run"), "--storage-driver", "vfs")

    def run(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(["buildah", *self._options, *words], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def build(self, *words: str, code: int = 0) -> str:
        return self.run("build", "--isolation", "chroot", "--network", "host", *words, code=code)


class Image:
    """What was built, mounted at `root`; programs run in it as its own user."""

    def __init__(self, root: Path, inspected: dict[str, object], scratch: Path) -> None:
        self.root, self.inspected, self.scratch = root, inspected, scratch

    def argv(self, *words: str) -> list[str]:
        """A program in the image: own mounts and processes, no privileges; PID 1 as in a container."""
        mounts = f"mount -t proc proc {self.root}/proc && mount --rbind /dev {self.root}/dev"
        # chroot(2) needs a capability, so the privileges go after it.
        inside = f'exec chroot {self.root} setpriv --reuid=10001 --regid=0 --clear-groups --no-new-privs "$@"'
        return [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            f"{mounts} && {inside}",
            "sh",
            *words,
        ]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": PATH, "HOME": "/var/lib/pilotlight"}
        return subprocess.run(self.argv(*words), capture_output=True, text=True, check=False, env=env, timeout=120)


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("buildah"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, builder: Builder) -> str:
    """A bare Debian with Python, and a directory of wheels, as this machine's own pip finds them."""
    context = tmp_path_factory.mktemp("base")
    sources = next(iter([*Path("/etc/apt/sources.list.d").glob("debian.sources"), Path("/etc/apt/sources.list")]))
    tree = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=python3,python3-pip", "bookworm"]
    subprocess.run([*tree, str(context / "tree.tar"), str(sources)], check=True)
    pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", str(context / "own"), str(ROOT)], check=True)
    wheel = next((context / "own").glob("*.whl"))
    download = ["download", "-q", "--python-version=3.11", "--only-binary=:all:", "-d", str(context / "wheels")]
    subprocess.run([*pip, *download, str(wheel)], check=True)
    (context / "Containerfile").write_text(
        f"FROM scratch\nADD tree.tar /\nCOPY wheels /wheels\nENV PATH={PATH} PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels\n"
    )
    builder.build("--tag", "localhost/debian", str(context))
    return "localhost/debian"


@pytest.fixture(scope="module")
def image(base: str, builder: Builder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """Built as serving-runtimes/build gathers it, with a bundle and a policy to bake in."""
    scratch = tmp_path_factory.mktemp("image")
    context = scratch / "context"
    for directory in ("wheel", "prebuilt-cache/abc", "trust"):
        (context / directory).mkdir(parents=True)
    (context / "prebuilt-cache" / "abc" / "a.bundle").touch()
    (context / "trust" / "trust.yaml").write_text("keys: []\n")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(context / "wheel"), str(ROOT)]
    subprocess.run(pip, check=True)
    for name in ("install.sh", "Containerfile"):
        shutil.copy(HOME / name, context)
    said = builder.build(
        *("--build-arg", f"BASE={base}", "--build-arg", f"BASE_DIGEST={DIGEST}", "--tag", "localhost/it"), str(context)
    )
    assert "install.sh: done: pilotlight-engine" in said
    inspected = json.loads(builder.run("inspect", "--type", "image", "localhost/it"))
    container = builder.run("from", "localhost/it").strip()
    yield Image(Path(builder.run("mount", container).strip()), inspected, scratch)
    builder.run("umount", container)
    builder.run("rm", container)


def test_it_says_what_a_pod_needs(image: Image) -> None:
    config = image.inspected["OCIv1"]
    assert isinstance(config, dict)
    assert config["config"]["Entrypoint"] == ["pilotlight-engine"]
    assert config["config"]["User"] == "10001:0"
    assert list(config["config"]["ExposedPorts"]) == ["8080"] or list(config["config"]["ExposedPorts"]) == ["8080/tcp"]
    assert re.fullmatch(r"sha256:[0-9a-f]{64}\n", (image.root / "etc/pilotlight/image").read_text())
    assert (image.root / "opt/prebuilt-cache/abc/a.bundle").exists()
    assert (image.root / "etc/pilotlight/trust.yaml").exists()
    assert not (image.root / "tmp/pilotlight").exists()
    assert not list((image.root / "var/lib/apt/lists").glob("*Packages*"))


def test_the_engines_command_and_every_module_of_the_runtime_run_without_vllm(image: Image) -> None:
    assert "usage: pilotlight-engine" in image.run("pilotlight-engine", "--help").stdout
    walk = (
        "import pkgutil, importlib, runtime\n"
        "found = [m.name for m in pkgutil.walk_packages(runtime.__path__, 'runtime.')]\n"
        "found = [n for n in found if not n.endswith('__main__') and n != 'runtime.cache.locks_lease']\n"
        "[importlib.import_module(n) for n in found]\n"
        "import sys; assert 'torch' not in sys.modules and 'vllm' not in sys.modules\n"
        "print(len(found))"
    )
    done = image.run("python3", "-P", "-c", walk)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50
    assert image.run("g++", "--version").returncode == 0
    assert image.run("id", "-u").stdout == "10001\n"
    assert image.run("touch", "/usr/local/bin/x").returncode != 0
    read = image.run("python3", "-P", "-c", "from runtime.cache.machine import image_digest as d; print(d())").stdout
    assert read == (image.root / "etc/pilotlight/image").read_text()


def test_without_vllm_it_ends_with_one_line_that_says_so(image: Image) -> None:
    make_model(image.root / "mnt/models")
    done = image.run("pilotlight-engine", "--platform=cpu", "--listen=127.0.0.1:18099", "--")
    assert done.returncode == 1, done.stderr
    last = [line for line in done.stderr.splitlines() if line.startswith("pilotlight-engine: ")][-1]
    assert "did not start" in last
    assert "vllm" in last.lower(), last


def test_a_whole_life_in_it_as_its_own_user(image: Image) -> None:
    """With the fake engine in vLLM's place: from nothing to ready, and gone at SIGTERM."""
    shutil.rmtree(image.root / "mnt/models", ignore_errors=True)
    make_model(image.root / "mnt/models")
    for name in ("__init__.py", "fakes/__init__.py", "fakes/engine.py", "fakes/model.py"):
        target = image.root / "opt/tests" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tests" / name, target)
    port = free_port()
    fake = "python3 /opt/tests/fakes/engine.py"
    words = ("pilotlight-engine", f"--listen=127.0.0.1:{port}", "--let-go-s=0.1", f"--engine-command={fake}", "--")
    err = image.scratch / "err"
    with err.open("wb") as stderr:
        pod = subprocess.Popen(image.argv(*words), stdout=subprocess.DEVNULL, stderr=stderr, env={"PATH": PATH})

    def ready() -> bool:
        assert pod.poll() is None, err.read_text()
        try:
            return httpx.get(f"http://127.0.0.1:{port}/pilotlight/ready").status_code == 200
        except httpx.TransportError:
            return False

    try:
        wait_for(ready, within_s=60, saying="ready")
        engine = int(Path(f"/proc/{pod.pid}/task/{pod.pid}/children").read_text())
        status = Path(f"/proc/{engine}/status").read_text()
        assert re.search(r"^Uid:\s+10001\s", status, re.MULTILINE)
        assert re.search(r"^NSpid:\s+\d+\s+1$", status, re.MULTILINE), "it is PID 1, as in a container"
        os.kill(engine, signal.SIGTERM)
        begun = time.monotonic()
        assert pod.wait(30) == 0, err.read_text()
        assert time.monotonic() - begun < 25
    finally:
        pod.kill()
        pod.wait()


def test_nothing_that_vllm_came_with_is_changed(base: str, builder: Builder, tmp_path: Path) -> None:
    """A base whose h11 is too old for us: the build fails rather than to replace it."""
    kept = "/usr/lib/python3/dist-packages/h11-0.1.dist-info"
    (tmp_path / "Containerfile").write_text(
        f"FROM {base}\n"
        f"RUN mkdir {kept} && printf 'Metadata-Version: 2.1\\nName: h11\\nVersion: 0.1\\n' > {kept}/METADATA\n"
    )
    builder.build("--tag", "localhost/old", str(tmp_path))
    context = tmp_path / "context"
    for directory in ("wheel", "prebuilt-cache", "trust"):
        (context / directory).mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(context / "wheel"), str(ROOT)]
    subprocess.run(pip, check=True)
    for name in ("install.sh", "Containerfile"):
        shutil.copy(HOME / name, context)
    said = builder.build(
        *("--build-arg", "BASE=localhost/old", "--build-arg", f"BASE_DIGEST={DIGEST}", str(context)), code=1
    )
    assert re.search(r"user requested \(constraint\) h11==0\.1", said), said[-2000:]
    assert "beside what vLLM came with" in said
