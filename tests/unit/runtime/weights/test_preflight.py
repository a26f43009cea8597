from pathlib import Path

import pytest

from runtime.weights.finding import Code, gib
from runtime.weights.memory import Memory, read_memory
from runtime.weights.place import Medium, Place, cpus, mount_of, parse_mounts, read_place
from runtime.weights.preflight import Facts, findings

GIB = 2**30


def place(
    medium: Medium = "nvme", *, on_root: bool = False, total: int = 100 * GIB, distance: int | None = 10
) -> Place:
    return Place(
        path=Path("/models/x"),
        mount_point="/models",
        fs_type={"fuse": "fuse.gcsfuse", "network": "nfs4", "memory": "tmpfs"}.get(medium, "ext4"),
        device="dev",
        medium=medium,
        on_root=on_root,
        total_bytes=total,
        free_bytes=total,
        numa_node=0,
        numa_distance=distance,
    )


def facts(
    weight: int | None = 10 * GIB,
    free: int | None = 100 * GIB,
    weights: Place | None = None,
    *,
    url: bool = False,
    shm: Place | None = None,
    scratch: Place | None = None,
    on_host: bool = True,
    ranks: int = 1,
    largest: int = 0,
) -> Facts:
    return Facts(
        weight_bytes=weight,
        memory=Memory(free, free, "/sys/fs/cgroup/pod"),
        weights=None if url else weights or place(),
        shm=shm,
        scratch=scratch,
        on_host=on_host,
        ranks=ranks,
        largest_tensor_bytes=largest,
    )


SMALL = place("memory", total=64 * 2**20)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(facts(), [], id="all well"),
        pytest.param(facts(free=9 * GIB), [("error", Code.HOST_MEMORY)], id="more weights than memory"),
        pytest.param(facts(free=12 * GIB), [("warning", Code.PAGE_CACHE)], id="page cache too small"),
        pytest.param(facts(free=9 * GIB, on_host=False), [("warning", Code.PAGE_CACHE)], id="weights go to a GPU"),
        pytest.param(facts(free=9 * GIB, on_host=False, url=True), [], id="streamed to a GPU"),
        pytest.param(
            facts(free=GIB, on_host=False, url=True, ranks=4, largest=GIB // 2),
            [("error", Code.HOST_MEMORY)],
            id="largest tensor on each rank",
        ),
        pytest.param(facts(free=None), [], id="memory unknown"),
        pytest.param(facts(None, 1), [], id="weights unknown"),
        pytest.param(facts(shm=SMALL), [], id="one rank needs no shm"),
        pytest.param(facts(shm=SMALL, ranks=2), [("error", Code.SHARED_MEMORY)], id="a container's shm"),
        pytest.param(
            facts(shm=place("memory", total=GIB // 2), ranks=2), [("warning", Code.SHARED_MEMORY)], id="little shm"
        ),
        pytest.param(facts(shm=place("memory", total=GIB), ranks=2), [], id="enough shm"),
        pytest.param(facts(url=True, scratch=place(total=2**20)), [("error", Code.DISK_SPACE)], id="full scratch"),
        pytest.param(facts(scratch=place(total=2**20)), [], id="a local model fetches nothing"),
        pytest.param(facts(weights=place("fuse")), [("warning", Code.FUSE)], id="FUSE"),
        pytest.param(facts(weights=place("network")), [("note", Code.NETWORK_FILES)], id="NFS"),
        pytest.param(facts(weights=place("memory")), [("note", Code.IN_MEMORY)], id="tmpfs"),
        pytest.param(facts(weights=place("overlay")), [("warning", Code.ROOT_DISK)], id="image layer"),
        pytest.param(facts(weights=place("virtual", on_root=True)), [("warning", Code.ROOT_DISK)], id="root disk"),
        pytest.param(facts(weights=place(distance=32)), [("note", Code.FAR_NUMA)], id="far storage"),
        pytest.param(facts(weights=place(distance=None)), [], id="NUMA unknown"),
        pytest.param(
            facts(free=9 * GIB, weights=place("fuse", distance=32), ranks=2, shm=SMALL),
            [
                ("error", Code.HOST_MEMORY),
                ("error", Code.SHARED_MEMORY),
                ("warning", Code.FUSE),
                ("note", Code.FAR_NUMA),
            ],
            id="errors first",
        ),
    ],
)
def test_findings(given: Facts, expected: list[tuple[str, Code]]) -> None:
    found = findings(given)
    assert [(each.level, each.code) for each in found] == expected
    assert all(each.fix and each.message for each in found)


def test_a_finding_names_place_numbers_and_fix() -> None:
    (found,) = findings(facts(free=9 * GIB))
    assert str(found) == (
        "error: the weights take 10.0 GiB, the cgroup /sys/fs/cgroup/pod has 9.0 GiB of memory left: "
        "raise the memory limit, or serve a smaller or quantized model"
    )


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (5 * 2**20, "5.0 MiB"), (140 * GIB, "140 GiB")]
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert gib(size) == text


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MEMINFO = {"meminfo": "MemTotal: 1 kB\nMemAvailable:       1000 kB\n"}
V1_NONE = "9223372036854771712"


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        pytest.param("", {}, Memory(1024_000), id="no cgroup"),
        pytest.param("0::/\n", {"memory.max": "max", "memory.current": "1"}, Memory(1024_000), id="v2 without limit"),
        pytest.param(
            "0::/a/b\n",
            {
                "a/memory.max": "500000",
                "a/memory.current": "450000",
                "a/memory.stat": "anon 1\ninactive_file 40000\n",
                "a/b/memory.max": "max",
                "a/b/memory.current": "1",
            },
            Memory(90_000, 500_000, "a"),
            id="v2, the parent's limit, cached pages count as free",
        ),
        pytest.param(
            "0::/a/b\n",
            {
                "a/memory.max": "500000",
                "a/memory.current": "1",
                "a/b/memory.max": "400000",
                "a/b/memory.current": "1",
            },
            Memory(399_999, 400_000, "a/b"),
            id="v2, the nearer limit is tighter",
        ),
        pytest.param(
            "4:memory:/x\n0::/\n",
            {"memory/x/memory.limit_in_bytes": "9000", "memory/x/memory.usage_in_bytes": "9500"},
            Memory(0, 9000, "memory/x"),
            id="v1, over its limit",
        ),
        pytest.param(
            "4:memory:/x\n",
            {"memory/x/memory.limit_in_bytes": V1_NONE, "memory/x/memory.usage_in_bytes": "1"},
            Memory(1024_000),
            id="v1 without limit",
        ),
        pytest.param(
            "4:memory:/host/path\n",
            {"memory/memory.limit_in_bytes": "9000", "memory/memory.usage_in_bytes": "1000"},
            Memory(8000, 9000, "memory"),
            id="v1 in a container: the mount is the cgroup",
        ),
        pytest.param(
            "0::/\n",
            {"memory.max": "99999999999", "memory.current": "0"},
            Memory(1024_000, 99_999_999_999),
            id="the machine has less than the cgroup allows",
        ),
        pytest.param("0::/\n", {"memory.max": "rubbish", "memory.current": ""}, Memory(1024_000), id="rubbish"),
    ],
)
def test_memory(tmp_path: Path, cgroup: str, files: dict[str, str], expected: Memory) -> None:
    proc = tree(tmp_path / "proc", {**MEMINFO, "self/cgroup": cgroup})
    cgroups = tree(tmp_path / "cg", files)
    found = read_memory(proc, cgroups)
    where = None if expected.limited_by is None else str(cgroups / expected.limited_by)
    assert found == Memory(expected.free_bytes, expected.limit_bytes, where)


def test_memory_that_nobody_tells(tmp_path: Path) -> None:
    assert read_memory(tmp_path, tmp_path) == Memory(None)


MOUNTS = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 259:1 / /models rw - ext4 /dev/nvme0n1p1 rw
31 27 0:40 / /models/bucket rw shared:1 master:2 - fuse.gcsfuse bucket rw
32 27 8:1 / /mnt/with\\040space rw - xfs /dev/sda1 rw
33 27 0:41 / /over rw - overlay overlay rw
34 27 0:41 / /over rw - tmpfs tmpfs rw
35 27 0:50 / /net rw - nfs4 server:/x rw
rubbish
"""


@pytest.mark.parametrize(
    ("path", "fs_type", "device"),
    [
        ("/", "ext4", "/dev/vda"),
        ("/modelsx/y", "ext4", "/dev/vda"),
        ("/models/y", "ext4", "/dev/nvme0n1p1"),
        ("/models/bucket/y", "fuse.gcsfuse", "bucket"),
        ("/mnt/with space/y", "xfs", "/dev/sda1"),
        ("/over/y", "tmpfs", "tmpfs"),
    ],
)
def test_the_mount_that_serves_a_path(path: str, fs_type: str, device: str) -> None:
    mount = mount_of(path, parse_mounts(MOUNTS))
    assert (mount.fs_type, mount.device) == (fs_type, device)


def disk(sys: Path, number: str, where: str, files: dict[str, str]) -> None:
    tree(sys / "devices" / where, files)
    (sys / "dev" / "block").mkdir(parents=True, exist_ok=True)
    (sys / "dev" / "block" / number).symlink_to(sys / "devices" / where)


@pytest.mark.parametrize(
    ("line", "medium"),
    [
        ("1 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw", "nvme"),
        ("1 1 8:1 / / rw - ext4 /dev/sda1 rw", "disk"),
        ("1 1 8:16 / / rw - ext4 /dev/sdb rw", "ssd"),
        ("1 1 254:0 / / rw - ext4 /dev/vda rw", "virtual"),
        ("1 1 9:9 / / rw - ext4 /dev/gone rw", "unknown"),
        ("1 1 0:1 / / rw - tmpfs tmpfs rw", "memory"),
        ("1 1 0:1 / / rw - nfs4 s:/x rw", "network"),
        ("1 1 0:1 / / rw - fuse.s3fs b rw", "fuse"),
        ("1 1 0:1 / / rw - fuse b rw", "fuse"),
        ("1 1 0:1 / / rw - overlay overlay rw", "overlay"),
    ],
)
def test_media(tmp_path: Path, line: str, medium: Medium) -> None:
    sys = tmp_path / "sys"
    disk(sys, "259:1", "pci/nvme/nvme0/nvme0n1/nvme0n1p1", {"../queue/rotational": "0"})
    disk(sys, "8:1", "pci/sda/sda1", {"../queue/rotational": "1"})
    disk(sys, "8:16", "pci/sdb", {"queue/rotational": "0"})
    disk(sys, "254:0", "virtio1/vda", {"queue/rotational": "1"})
    proc = tree(tmp_path / "proc", {"self/mountinfo": line + "\n"})
    found = read_place(tmp_path, proc, sys)
    assert (found.medium, found.on_root) == (medium, True)


def test_numa_of_the_storage(tmp_path: Path) -> None:
    sys = tmp_path / "sys"
    disk(sys, "259:1", "pci0/nvme/nvme0/nvme0n1", {"queue/rotational": "0", "../../numa_node": "1"})
    nodes = {"node0/cpulist": "0-511", "node0/distance": "10 21", "node1/cpulist": "512-600", "node1/distance": "21 10"}
    tree(sys / "devices" / "system" / "node", nodes)
    proc = tree(tmp_path / "proc", {"self/mountinfo": "1 1 259:1 / / rw - xfs /dev/nvme0n1 rw\n"})
    found = read_place(tmp_path, proc, sys)
    assert (found.numa_node, found.numa_distance) == (1, 21)
    assert str(found) == "xfs on /dev/nvme0n1 at / (nvme, NUMA node 1 (distance 21))"


def test_the_real_machine(tmp_path: Path) -> None:
    found = read_place(tmp_path / "not" / "there")
    assert found.fs_type != "unknown"
    assert 0 < found.free_bytes <= found.total_bytes


def test_lists_of_processors() -> None:
    assert cpus("0-2,8\n") == {0, 1, 2, 8}
    assert cpus("") == set()
