"""What a waiting streaming client is told: one SSE comment with stage, seconds to go and position."""

from datetime import datetime

from runtime.contract import Route


def progress(route: Route, now: datetime, position: int) -> str:
    """For example `pilotlight waiting stage=compile eta_s=31 position=1`.

    `stage` is `queued` before the first stage is known; `eta_s` is left out while nobody knows it, and 0 when overdue.
    """
    words = ["pilotlight waiting", f"stage={route.stage.value if route.stage else 'queued'}"]
    if route.eta_at is not None:
        words.append(f"eta_s={max(0, round((route.eta_at - now).total_seconds()))}")
    words.append(f"position={position}")
    return " ".join(words)
