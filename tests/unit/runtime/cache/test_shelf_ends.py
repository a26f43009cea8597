"""A host that is killed at each of its steps, a disk that is full, and starts and failures in any order."""

import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.cache import following
from runtime.cache import shelf as shelving
from runtime.cache.restore import verify
from runtime.cache.shelf import Shelf
from runtime.cache.signing import SigningKey
from runtime.cache.start_cache import StartCache
from runtime.cache.stores.directory import DirectoryStore
from runtime.cache.trust import TrustPolicy
from runtime.contract import EngineSpec, Failure, FailureCause, Verdict
from tests.unit.runtime.cache.killed import killed_before_act
from tests.unit.runtime.cache.stores.samples import NOON
from tests.unit.runtime.cache.trees import FINGERPRINT

ROOT = Path(__file__).parents[4]
KEY = FINGERPRINT.key
SPEC = EngineSpec(service="test/one", served_names=("one",), model="/none")
PART = "torch_compile_cache/torch_aot_compile/" + "20d1" * 16
SAVED = "saved AOT compiled function to"
LOADED = "Directly load AOT compilation from path"
WHOLE, HALF = b"whole", b"half"


@pytest.fixture(autouse=True)
def one_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every start of this file."""
    monkeypatch.setattr(shelving, "fingerprint_of", lambda *_, **__: FINGERPRINT)
    monkeypatch.setattr(following, "SAVES_S", 0.0)  # nobody waits for anybody


def a_shelf(root: Path, clock: Callable[[], datetime]) -> Shelf:
    """Of a host in `root`, which shares a store and a key with those beside it."""
    shared, own = root.parent / "key.pem", root / ".shelf" / "signing-key.pem"
    SigningKey.load_or_make(shared)
    own.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not own.exists():
        shutil.copy(shared, own)
    return Shelf(root / ".shelf", clock=clock, version="0.1.0", publish_to=f"file://{root.parent / 'far'}")


def engine(cache: StartCache, content: bytes, rank: int = 0) -> None:
    """An engine compiles one thing, or has begun to."""
    path = cache.root.path / PART / f"rank_{rank}_0" / "model"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def artifacts(cache: StartCache) -> set[bytes]:
    return {path.read_bytes() for path in cache.root.path.glob(f"{PART}/*/model")}


async def a_start(root: Path, clock: Callable[[], datetime], replica: str = "0") -> StartCache:
    """From the first look for a bundle to the last store that was offered one."""
    shelf = a_shelf(root, clock)
    cache = await shelf.begin(SPEC, {}, (), root / replica)
    if cache.found:
        cache.line(LOADED)
    else:
        engine(cache, HALF)
        engine(cache, WHOLE)
        cache.line(SAVED)
    await cache.proven(1.0)
    await shelf.publish(cache, golden=None, compile_s=1.0)
    await shelf.close()
    return cache


def sound(root: Path) -> int:
    """How many bundles the stores have; each is whole."""
    trust = TrustPolicy.own(SigningKey.load(root.parent / "key.pem").public)
    count = 0
    for folder in (root / ".shelf" / "store", root.parent / "far"):
        if folder.is_dir():
            for ref in asyncio.run(DirectoryStore(folder).list()):
                verify(folder / "bundles" / KEY / ref.name, trust=trust, expected_key=KEY, expected_digest=ref.digest)
                count += 1
    return count


def later() -> datetime:
    """When a dead publisher's lock has expired."""
    return NOON + timedelta(seconds=120)


def kill_at(steps: range, directory: Path, prepare: Callable[[Path], None]) -> int:
    """Kill a host's start before each of these steps; the number of steps made, and the next start is as ever."""
    for step in steps:
        root = directory / str(step) / "host"
        root.mkdir(parents=True)
        SigningKey.load_or_make(root.parent / "key.pem")
        prepare(root)
        killed = killed_before_act(step, str(root.parent), partial(start_at_noon, root))
        sound(root)
        cache = asyncio.run(a_start(root, later))
        assert cache.use.verdict in {Verdict.ABSENT, Verdict.USED}, step
        assert artifacts(cache) == {WHOLE}, step
        other = asyncio.run(a_start(root, later, "1"))
        assert (other.use.verdict, artifacts(other)) == (Verdict.USED, {WHOLE}), step
        assert sound(root) >= 2, "its own store and the common one"
        assert not list((root / ".shelf" / "scratch").glob("*")), step
        shutil.rmtree(root.parent)
        if not killed:
            return step
    return -1


def start_at_noon(root: Path) -> None:
    """The start that is killed."""
    asyncio.run(a_start(root, lambda: NOON))


def cold(_root: Path) -> None:
    """Nothing is there."""


def with_a_bundle(root: Path) -> None:
    """Another host has published."""
    start_at_noon(root.with_name("maker"))


@pytest.mark.parametrize("prepare", [cold, with_a_bundle])
def test_a_host_killed_at_some_steps(tmp_path: Path, prepare: Callable[[Path], None]) -> None:
    kill_at(range(1, 2000, 17), tmp_path, prepare)


@pytest.mark.prove
@pytest.mark.parametrize("prepare", [cold, with_a_bundle])
def test_a_host_killed_at_each_step(tmp_path: Path, prepare: Callable[[Path], None]) -> None:
    steps = kill_at(range(1, 2000), tmp_path, prepare)
    assert steps > 0
    print(f"killed before each of {steps - 1} acts on files ({prepare.__name__})")


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """A real small file system, seen by one process only, so that it ends with it."""
    small, elsewhere = tmp_path / "small", tmp_path / "elsewhere"
    small.mkdir()
    elsewhere.mkdir()
    unshare = shutil.which("unshare")
    mount = f"mount -t tmpfs -o size=4m tmpfs '{small}' && "
    if unshare is None or subprocess.run([unshare, "-m", "sh", "-c", mount + "true"], check=False).returncode:
        pytest.skip("mounting needs root and `unshare` (Debian: util-linux)")
    done = subprocess.run(
        [
            *(unshare, "-m", "sh", "-c", mount + 'exec "$@"', "sh", sys.executable),
            *("-m", "tests.unit.runtime.cache.starting_full", str(small), str(elsewhere)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = [line.split(" | ") for line in done.stdout.splitlines()]
    assert [line[:4] for line in told] == [
        ["maker", "ready", "absent", "published"],
        ["no room at all", "failed", "-", "-"],
        ["room for the artifact only", "ready", "absent", "-"],
        ["room again", "ready", "used", "published"],
        ["another replica", "ready", "used", "-"],
    ]
    assert "No space left on device" in told[1][4]
    assert told[2][4].count("the bundle needs") == 1, "the next store's would need as much"
    assert "not published: " in told[2][4]


class World:
    """Two hosts with two replicas each and a store that they share, one step at a time."""

    def __init__(self, root: Path) -> None:
        self.root, self.now = root, NOON
        self.shelves = {host: a_shelf(root / host, lambda: self.now) for host in "ab"}
        self.begun: dict[tuple[str, str], StartCache] = {}
        self.proven: dict[tuple[str, str], StartCache] = {}

    async def step(self, act: str, host: str, replica: str) -> None:
        at, self.now = (host, replica), self.now + timedelta(seconds=7)
        match act:
            case "begin" if at not in self.begun and at not in self.proven:
                await self.begin(at)
            case "prove" if at in self.begun:
                self.proven[at] = cache = self.begun.pop(at)
                for path in cache.root.path.glob(f"{PART}/*/model"):
                    path.write_bytes(WHOLE)
                await cache.proven(1.0)
            case "publish" if at in self.proven:
                await self.shelves[host].publish(self.proven.pop(at), golden=None, compile_s=1.0)
            case "crash" if at in self.begun or at in self.proven:
                cache = self.begun.pop(at) if at in self.begun else self.proven.pop(at)
                await self.crash(host, cache)
            case "cancel" if at in self.begun:
                await self.begun.pop(at).close()
            case "kill":
                self.begun = {each: cache for each, cache in self.begun.items() if each[0] != host}
                self.proven = {each: cache for each, cache in self.proven.items() if each[0] != host}
                self.shelves[host] = a_shelf(self.root / host, lambda: self.now)
            case "wait":
                self.now += timedelta(days=6)

    async def begin(self, at: tuple[str, str]) -> None:
        shelf = self.shelves[at[0]]
        held = {row.digest for row in shelf._quarantine.rows(self.now)}
        cache = self.begun[at] = await shelf.begin(SPEC, {}, (), self.root / at[0] / at[1])
        assert cache.use.digest not in held, "a quarantined bundle was restored"
        assert artifacts(cache) == ({WHOLE} if cache.found else set()), "what nobody proved was used"
        cache.line(LOADED if cache.found else SAVED)
        engine(cache, HALF, rank=int(cache.found))  # under way; one thing more where some was found

    async def crash(self, host: str, cache: StartCache) -> None:
        numbers: dict[str, float | str] = {"signal": "SIGSEGV", "stage": "compile"}
        failure = Failure(cause=FailureCause.KILLED, message="a test", at=self.now, numbers=numbers)
        suspect = cache.suspect
        assert (await self.shelves[host].blame(cache, failure, 5.0) is not None) is (suspect is not None)
        await cache.close()
        if cache.use.digest is not None:
            assert self.shelves[host]._quarantine.holds(cache.use.digest, self.now)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "begin", "prove", "prove", "publish", "publish", "crash", "cancel", "kill", "wait"]),
        st.sampled_from("ab"),
        st.sampled_from("01"),
    ),
    min_size=10,
    max_size=40,
)


def walk(steps: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as directory:

        async def walked() -> None:
            world = World(Path(directory))
            for step in steps:
                await world.step(*step)

        asyncio.run(walked())
        for host in "ab":
            sound(Path(directory) / host)


QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
@given(STEPS)
def test_any_order_of_starts_failures_and_publications(steps: list[tuple[str, str, str]]) -> None:
    walk(steps)


@pytest.mark.prove
@settings(max_examples=500, deadline=None, suppress_health_check=QUIET)
@given(STEPS)
def test_any_order_of_starts_failures_and_publications_long(steps: list[tuple[str, str, str]]) -> None:
    walk(steps)
