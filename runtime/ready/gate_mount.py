"""What vLLM loads by `--middleware runtime.ready.gate_mount.MountedGate`: the gate with this engine's credential.

The class is made when it is asked for, which vLLM does once and before it listens: an unusable credential then ends the
engine with its reason. Not when this module is imported: a fork server may have done that for all engines, long before
one has a credential. Not when the gate is made: vLLM does that in the server's lifespan, whose errors uvicorn swallows.
"""

import os
from datetime import UTC, datetime

from runtime.ready.gate import App, Gate
from runtime.ready.gate_credential import given_credential
from runtime.ready.gate_seal import Sealer
from runtime.ready.gate_seal_env import SNAPSHOT_ENV


def __getattr__(name: str) -> type[Gate]:
    """`MountedGate`: the gate of the engine that this process is. Raises ValueError on an unusable credential."""
    if name != "MountedGate":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _with(given_credential(os.environ))


def _with(credential: str | None) -> type[Gate]:
    class MountedGate(Gate):
        """A gate that is made with nothing but its application, as vLLM makes its middleware."""

        def __init__(self, app: App) -> None:
            sealer = Sealer(_now) if os.environ.get(SNAPSHOT_ENV) == "1" else None
            super().__init__(app, credential=credential, clock=_now, sealer=sealer)

    return MountedGate


def _now() -> datetime:
    return datetime.now(UTC)
