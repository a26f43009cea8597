"""What vLLM loads by `--middleware runtime.ready.gate_mount.MountedGate`: the gate with this engine's credential.

The credential is read as the module is imported, not as the gate is made: vLLM imports it before it listens, and an
error then ends the engine with its reason; vLLM makes the gate in the server's lifespan, whose errors uvicorn swallows.
"""

import os
from datetime import UTC, datetime
from typing import Final

from runtime.ready.gate import App, Gate
from runtime.ready.gate_credential import given_credential

_CREDENTIAL: Final = given_credential(os.environ)


class MountedGate(Gate):
    """The gate of the engine that this process is."""

    def __init__(self, app: App) -> None:
        super().__init__(app, credential=_CREDENTIAL, clock=lambda: datetime.now(UTC))
