"""The variable that says that an image of an engine will be made. Imports nothing: each process reads it early."""

from typing import Final

SNAPSHOT_ENV: Final = "PILOTLIGHT_SNAPSHOT"
"""`1`: this engine is begun for an image of it. It then runs on the plain event loop and can be sealed."""
