"""One start's try to come from an image: choose one, restore it, become its host, compare its golden answer.

Whatever goes wrong, nothing of the try is left, the image is put aside, and the start goes on without, and says why.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import datetime

from runtime.contract import EngineSpec, Golden, Mark, Stage, StartKind
from runtime.engine.argv import LOOPBACK
from runtime.engine.dirs import EngineDirs
from runtime.engine.launch import Launcher, Listen
from runtime.engine.process import EngineProcess
from runtime.engine.recorder import Recorder
from runtime.engine.snapshot.hosted import Snapshots
from runtime.engine.snapshot.images import ImageInUseError, Place, held
from runtime.engine.snapshot.manifest import SnapshotManifest, prompt_of
from runtime.engine.snapshot.restore import NotRestoredError, Restored, renew, restore
from runtime.engine.watch import StartWatch
from runtime.ready.fault import Fault
from runtime.ready.gate_control import GateControl
from runtime.ready.gate_credential import new_credential
from runtime.ready.golden import ask_golden


@dataclass(frozen=True, slots=True)
class Back:
    """An engine that came from an image, and has answered its golden prompt."""

    process: EngineProcess
    gate: GateControl


class Attempt:
    """One start's. `promising` first; where that is so, `run` once the model is proven."""

    def __init__(
        self, spec: EngineSpec, dirs: EngineDirs, recorder: Recorder, watch: StartWatch, launcher: Launcher
    ) -> None:
        self._spec, self._dirs, self._recorder, self._watch = spec, dirs, recorder, watch
        self._launcher, self._snapshots = launcher, launcher.snapshots
        self._held = contextlib.ExitStack()

    async def promising(self) -> bool:
        """Whether only the model can still speak against one of the images, so that no compiled code is looked for."""
        if self._snapshots is None:
            return False
        with contextlib.suppress(OSError):
            if await asyncio.to_thread(self._snapshots.promising, self._spec):
                return True
        # What speaks against each of them is told with the start all the same.
        self._recorder.change(not_restored=(await self._snapshots.choose(self._spec, None)).why_not)
        return False

    async def run(self) -> Back | None:
        """The engine; None: the start goes on without, `not_restored` says why. Cancelled, it leaves nothing."""
        assert self._snapshots is not None  # noqa: S101  (it was promising)
        recorder = self._recorder
        recorder.begin(Stage.SNAPSHOT_RESTORE, recorder.clock())
        recorder.change()
        choice = await self._snapshots.choose(self._spec, recorder.record.model_digest)
        why = choice.why_not or "there is no image of it"
        if choice.place is not None and choice.manifest is not None:
            try:
                return await self._restored(self._snapshots, choice.place, choice.manifest)
            except (ImageInUseError, FileNotFoundError):  # it is being removed
                why = f"{choice.manifest.id} is being removed"
            except (NotRestoredError, Fault) as error:
                why = f"{choice.manifest.id}: {error}"
                self._snapshots.images.put_aside(choice.place, str(error))
        recorder.end(Stage.SNAPSHOT_RESTORE, recorder.clock())
        recorder.change(not_restored=why, kind=self._launcher.kind_anew(self._spec, self._dirs))
        return None

    def close(self) -> None:
        """The engine has ended: its image may be removed."""
        self._held.close()

    async def _restored(self, snapshots: Snapshots, place: Place, manifest: SnapshotManifest) -> Back:
        self._held.enter_context(held(place, alone=False))
        process = None
        try:

            async def make(output: int) -> Restored:
                return await restore(place, manifest, snapshots.criu, self._dirs.run, output)

            recorder = self._recorder
            process = await EngineProcess.fork(make, log=self._dirs.log, on_line=self._line, clock=recorder.clock)
            gate = await self._host(process)
            begun = recorder.clock()
            tokens = await self._watch.or_end(process, self._golden(gate, manifest))
            self._note(manifest, begun, tokens)
            return Back(process, gate)
        except BaseException:
            if process is not None:
                process.kill()
                await asyncio.shield(process.clear())
            self._held.close()
            raise

    def _line(self, _: datetime, text: str) -> None:
        self._watch.line(text)

    def _note(self, manifest: SnapshotManifest, begun: datetime, tokens: tuple[int, ...]) -> None:
        """Only now: what a try that failed has reached is reached by the engine that follows it, and later."""
        recorder, answered = self._recorder, self._recorder.clock()
        for mark in (Mark.T4, Mark.T5, Mark.T6, Mark.T7):
            recorder.reach(mark, begun)
        recorder.reach(Mark.T8, answered)
        recorder.end(Stage.SNAPSHOT_RESTORE, begun)
        recorder.begin(Stage.GOLDEN_PROMPT, begun)
        recorder.end(Stage.GOLDEN_PROMPT, answered)
        recorder.change(kind=StartKind.SNAPSHOT, restored=manifest.id, golden_tokens=tokens)

    async def _host(self, process: EngineProcess) -> GateControl:
        """Become the engine's host, at a port that is taken here and so by nobody else."""
        self._watch.begin(process)
        listen = self._launcher.listen or Listen(LOOPBACK, 0)
        credential = new_credential()
        try:
            with listen.bound() as listener:
                address, port = listener.getsockname()[:2]
                await renew(self._dirs.run, credential, listener)
        except OSError as error:
            raise NotRestoredError(f"nothing can listen at {listen.address}: {error}") from error
        return GateControl(Listen(address, port).near_url, credential)

    async def _golden(self, gate: GateControl, manifest: SnapshotManifest) -> tuple[int, ...]:
        spec = self._spec
        golden = spec.golden
        if golden.tokens is None and prompt_of(golden) == manifest.prompt:
            golden = Golden(prompt=golden.prompt, max_tokens=golden.max_tokens, tokens=manifest.golden_tokens)
        key = self._recorder.record.golden_key
        return await ask_golden(gate.url, spec.served_names[0], golden, spec.start_timeout_s, key, gate.headers)
