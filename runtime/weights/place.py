"""Where a path lies: file system, medium, NUMA node; told from `/proc/self/mountinfo` and `/sys`."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Medium = Literal["nvme", "ssd", "disk", "virtual", "memory", "network", "fuse", "overlay", "unknown"]

_MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs"})
_NETWORK = frozenset(
    {"nfs", "nfs4", "lustre", "cifs", "smb3", "ceph", "glusterfs", "beegfs", "gpfs", "9p", "virtiofs", "wekafs", "afs"}
)


@dataclass(frozen=True, slots=True)
class Place:
    """A path's file system. `device` is what is mounted; `on_root`: it is the file system of `/`.

    `numa_node` of the storage device and `numa_distance` from it to the nearest node that this process may run on (10
    is the same node); None where the machine does not tell. `free_bytes` is what an ordinary user may still write.
    """

    path: Path
    mount_point: str
    fs_type: str
    device: str
    medium: Medium
    on_root: bool
    total_bytes: int
    free_bytes: int
    numa_node: int | None = None
    numa_distance: int | None = None

    def __str__(self) -> str:
        node = "" if self.numa_node is None else f", NUMA node {self.numa_node} (distance {self.numa_distance})"
        return f"{self.fs_type} on {self.device} at {self.mount_point} ({self.medium}{node})"


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo."""

    point: str
    fs_type: str
    device: str
    number: str


def read_place(path: Path, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> Place:
    """Ask the kernel about `path`, or about its nearest parent that exists. Raises OSError."""
    real = path.resolve()
    while not real.exists():
        real = real.parent
    mounts = parse_mounts((proc / "self" / "mountinfo").read_text())
    mount = mount_of(str(real), mounts)
    stat = os.statvfs(real)
    node = _node(mount, sys)
    return Place(
        path=path,
        mount_point=mount.point,
        fs_type=mount.fs_type,
        device=mount.device,
        medium=_medium(mount, sys),
        on_root=mount.point == "/",
        total_bytes=stat.f_blocks * stat.f_frsize,
        free_bytes=stat.f_bavail * stat.f_frsize,
        numa_node=node,
        numa_distance=None if node is None else _distance(node, sys),
    )


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """The lines of `/proc/self/mountinfo` (proc_pid_mountinfo(5)); what is no such line is passed over."""
    mounts = []
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if dash and len(left) >= 5 and len(right) >= 2:
            mounts.append(Mount(_plain(left[4]), right[0], _plain(right[1]), left[2]))
    return tuple(mounts)


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount:
    """The mount that serves `path`: the longest point above it, of equal ones the last, which covers the others."""
    found = Mount("/", "unknown", "unknown", "")
    for mount in mounts:
        inside = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if inside and len(mount.point) >= len(found.point):
            found = mount
    return found


def _plain(text: str) -> str:
    """Undo mountinfo's octal escapes of blank, tab, newline and backslash."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _medium(mount: Mount, sys: Path) -> Medium:
    if mount.fs_type in _MEMORY:
        return "memory"
    if mount.fs_type.startswith("fuse"):
        return "fuse"
    if mount.fs_type in _NETWORK:
        return "network"
    if mount.fs_type == "overlay":
        return "overlay"
    return _block_medium(sys / "dev" / "block" / mount.number)


def _block_medium(device: Path) -> Medium:
    try:
        real = device.resolve(strict=True)
    except OSError:
        return "unknown"
    # A partition has no queue of its own; that of its disk stands one level up.
    disk = real if (real / "queue").is_dir() else real.parent
    if disk.name.startswith("nvme"):
        return "nvme"
    if disk.name.startswith(("vd", "xvd")):
        return "virtual"
    try:
        return "disk" if (disk / "queue" / "rotational").read_text().strip() == "1" else "ssd"
    except OSError:
        return "unknown"


def _node(mount: Mount, sys: Path) -> int | None:
    try:
        real = (sys / "dev" / "block" / mount.number).resolve(strict=True)
    except OSError:
        return None
    for place in (real, *real.parents):
        try:
            node = int((place / "numa_node").read_text())
        except (OSError, ValueError):
            continue
        return node if node >= 0 else None  # −1: the machine has one node only, or does not tell
    return None


def _distance(node: int, sys: Path) -> int | None:
    nodes = sys / "devices" / "system" / "node"
    try:
        distances = [int(word) for word in (nodes / f"node{node}" / "distance").read_text().split()]
        numbers = sorted(int(each.name[4:]) for each in nodes.glob("node[0-9]*"))
        ours = os.sched_getaffinity(0)
        near = [
            distance
            for number, distance in zip(numbers, distances, strict=True)
            if ours & cpus((nodes / f"node{number}" / "cpulist").read_text())
        ]
    except (OSError, ValueError):
        return None
    return min(near, default=None)


def cpus(text: str) -> set[int]:
    """A kernel list of numbers (`0-3,8`). Raises ValueError."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
