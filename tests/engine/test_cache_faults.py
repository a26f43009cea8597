"""Real vLLM and its compile cache: used from a bundle, recompiled beside a useless one, dying of a poisoned one."""

import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from runtime.cache.bundle import pack
from runtime.cache.explain import explain
from runtime.cache.fingerprint import Fingerprint
from runtime.cache.inputs import fingerprint_of
from runtime.cache.manifest import Provenance
from runtime.cache.shelf import Shelf
from runtime.cache.signing import SigningKey
from runtime.cache.stores.directory import DirectoryStore
from runtime.contract import EngineSpec, FailureCause, Golden, StartRecord, Verdict
from runtime.engine.argv import engine_arguments, import_environment
from runtime.engine.fork.pool import ForkPool
from runtime.engine.group import members
from runtime.engine.launch import Launcher
from runtime.engine.start import EngineDirs, EngineStart, StartFailed, utc_now
from tests.engine.conftest import model

ARTIFACT = "torch_compile_cache/torch_aot_compile/*/rank_0_0/model"
ARGS = ("--max-model-len=512", "--max-num-seqs=8", "--dtype=bfloat16")


class Host:
    """A shelf, and starts of one service by forks of one parent."""

    def __init__(self, root: Path, forks: ForkPool, model: Path) -> None:
        self.root, self.forks, self.model = root, forks, model
        self.shelf = Shelf(root / ".shelf", clock=utc_now, version="0.1.0")
        self.store = DirectoryStore(root / ".shelf" / "store")
        self.learned: dict[str, tuple[int, ...]] = {}

    def spec(self, args: Sequence[str] = ARGS) -> EngineSpec:
        return EngineSpec(
            service="test/cache",
            served_names=("test/cache",),
            model=str(self.model),
            args=tuple(args),
            golden=Golden(learned=self.learned),
            start_timeout_s=400,
        )

    def fingerprint(self, args: Sequence[str] = ARGS) -> Fingerprint:
        spec = self.spec(args)
        return fingerprint_of(spec, environ=import_environment(spec, {}), args=engine_arguments(spec, 1, None)[2:])

    def root_of(self, replica: str, args: Sequence[str] = ARGS) -> Path:
        """The replica's cache root."""
        return self.root / replica / "cache" / self.fingerprint(args).key[:16]

    async def start(self, replica: str, args: Sequence[str] = ARGS) -> StartRecord:
        """The record of one start, offered to the stores, stopped again; or failed."""
        base = self.root / replica
        start = EngineStart(
            spec=self.spec(args),
            start_id="a-1",
            replica=f"test/cache/{replica}",
            dirs=EngineDirs(cache=base / "cache", log=base / "engine.log", run=base / "run"),
            asked_at=utc_now(),
            why="a test",
            spans=None,
            on_change=lambda _: None,
            on_stage=lambda _: None,
            launcher=Launcher(forks=self.forks, shelf=self.shelf),
        )
        with contextlib.suppress(StartFailed):
            engine = await start.run()
            start.admit(utc_now())
            await start.published()
            await engine.stop(5.0)
            await start.close()
        assert start.pid is None or not members(start.pid)
        record = start.record
        if record.golden_key is not None and record.golden_tokens is not None and record.outcome == "ready":
            self.learned.setdefault(record.golden_key, record.golden_tokens)
        failed = record.failure.message if record.failure else ""
        print(f"{replica}: {record.outcome} {record.ready_s} s {record.cache.model_dump(exclude_none=True)} {failed}")
        return record

    async def give(self, root: Path, store: DirectoryStore) -> str:
        """Publish the directory `root` as the newest bundle of the default arguments, by the host's own key."""
        signer = SigningKey.load(self.root / ".shelf" / "signing-key.pem")
        made = Provenance(made_by="a test", made_at=utc_now())
        packed = pack(root, self.root, fingerprint=self.fingerprint(), provenance=made, signer=signer)
        await store.publish(self.fingerprint().key, packed.path, packed.digest)
        return packed.digest

    def copy(self, replica: str, name: str) -> Path:
        """A copy of the replica's cache root, to be spoilt."""
        return Path(shutil.copytree(self.root_of(replica), self.root / name))


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    forks = ForkPool()
    made = Host(tmp_path / "host", forks, model(tmp_path / "m", 7))
    Launcher(forks=forks).want(made.spec())
    yield made
    await forks.close()
    await made.shelf.close()


def deadly_library(place: Path) -> bytes:
    """Machine code that ends the process which loads it, as a bad object or cubin does."""
    source, library = place / "deadly.c", place / "deadly.so"
    source.write_text("__attribute__((constructor)) static void die(void) { *(volatile int *)8 = 1; }\n")
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    return library.read_bytes()


def compiled_in(root: Path) -> Path:
    """The directory that vLLM names by its own key."""
    (path,) = (root / "torch_compile_cache" / "torch_aot_compile").iterdir()
    return path


async def test_used_recompiled_and_poisoned(host: Host, tmp_path: Path) -> None:
    """In one test, because each compile takes 20 s: two of them, and five starts."""
    cold = await host.start("cold")
    assert (cold.cache.verdict, cold.cache.origin) == (Verdict.ABSENT, None)
    assert cold.cache.published is not None
    assert cold.cache.compile_s is not None

    warm = await host.start("warm")
    assert (warm.cache.verdict, warm.cache.digest) == (Verdict.USED, cold.cache.published)
    assert warm.cache.evidence == "1 loaded, 0 compiled, 0 new in the directory"
    assert warm.golden_tokens == cold.golden_tokens
    assert warm.cache.compile_s is not None

    # Valid in all, but where this engine does not look: what a peer calls restored.
    elsewhere = host.copy("warm", "elsewhere")
    compiled_in(elsewhere).rename(compiled_in(elsewhere).with_name("20d1" * 16))
    useless = await host.give(elsewhere, host.store)
    again = await host.start("again")
    assert (again.outcome, again.cache.verdict, again.cache.digest) == ("ready", Verdict.RECOMPILED, useless)
    assert "0 loaded, 1 compiled, 1 new in the directory; it looked elsewhere" in again.cache.evidence
    assert again.golden_tokens == cold.golden_tokens
    assert again.cache.compile_s is not None

    # Machine code that kills: signed, for this fingerprint. A good bundle lies in the next store.
    far = DirectoryStore(tmp_path / "far")
    await host.give(host.root_of("warm"), far)
    host.shelf = Shelf(host.root / ".shelf", clock=utc_now, version="0.1.0", stores=[f"file://{tmp_path / 'far'}"])
    poisoned, deadly = host.copy("warm", "poisoned"), deadly_library(tmp_path)
    libraries = list(poisoned.rglob("*.so"))
    assert libraries
    for library in libraries:
        library.write_bytes(deadly)
    bad = await host.give(poisoned, host.store)
    died = await host.start("died")
    assert (died.outcome, died.cache.digest) == ("failed", bad)
    assert died.failure is not None
    # Whether the signal is told depends on which of the engine's processes sees the dead one first.
    assert died.failure.cause in {FailureCause.KILLED, FailureCause.EXITED}
    assert died.cache.note.startswith("put aside: ")
    sound = await host.start("died")
    assert (sound.outcome, sound.cache.verdict, sound.cache.origin) == ("ready", Verdict.USED, far.place)
    assert f"bundle {bad[:12]} left alone: it is quarantined here" in sound.cache.note
    assert sound.golden_tokens == cold.golden_tokens
    print(
        f"compile stage: cold {cold.cache.compile_s} s, used {warm.cache.compile_s} s, "
        f"recompiled {again.cache.compile_s} s"
    )


@pytest.mark.prove
async def test_a_bundle_of_other_arguments_and_torn_artifacts(host: Host) -> None:
    """Each of these compiles: other arguments under this fingerprint, a torn artifact, and none but a quarantined."""
    other = (*ARGS[:1], "--max-num-seqs=4", *ARGS[2:])
    theirs = await host.start("theirs", other)
    assert theirs.cache.key != host.fingerprint().key
    wrong = await host.give(host.root_of("theirs", other), host.store)
    first = await host.start("first")
    assert (first.cache.verdict, first.cache.digest) == (Verdict.RECOMPILED, wrong)

    def tear(path: Path) -> None:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    def replace(path: Path) -> None:
        path.write_bytes(b"not what was saved" * 1000)

    fresh = Path(shutil.copytree(host.root_of("first"), host.root / "fresh"))
    for number, spoil in enumerate((tear, replace)):
        root = Path(shutil.copytree(fresh, host.root / f"spoilt{number}"))
        for path in root.glob(ARTIFACT):
            spoil(path)
        bad = await host.give(root, host.store)
        record = await host.start(f"spoilt-{number}")
        assert record.cache.digest == bad
        if record.outcome == "failed":
            record = await host.start(f"spoilt-{number}")
            assert record.cache.verdict is Verdict.QUARANTINED
        else:
            assert record.cache.verdict is Verdict.RECOMPILED
            assert "a load failed" in record.cache.evidence
        assert (record.outcome, record.golden_tokens) == ("ready", first.golden_tokens)


@pytest.mark.prove
async def test_weights_share_code_and_another_architecture_does_not(host: Host, tmp_path: Path) -> None:
    cold = await host.start("cold")
    flagged = host.fingerprint((*ARGS[:1], "--max-num-seqs=4", *ARGS[2:]))
    assert flagged.key != cold.cache.key
    said = explain(host.fingerprint(), flagged)
    assert said == "--max-num-seqs 8 ≠ 4: sizes of compiled batches"
    print(said)

    host.model = model(tmp_path / "tuned", 8)
    tuned = await host.start("tuned")
    assert (tuned.cache.verdict, tuned.cache.digest) == (Verdict.USED, cold.cache.published)
    assert tuned.golden_tokens != cold.golden_tokens, "other weights, other words"

    place = host.model
    before = host.fingerprint()
    shutil.rmtree(place)
    model(place, 8, "wide")
    wide = await host.start("wide")
    assert wide.cache.key not in (None, before.key)
    assert (wide.outcome, wide.cache.verdict, wide.cache.origin) == ("ready", Verdict.ABSENT, None)
    print(explain(before, host.fingerprint()))
