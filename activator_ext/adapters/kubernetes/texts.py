"""Instants and durations as Kubernetes writes them."""

from datetime import UTC, datetime


def instant_text(instant: datetime) -> str:
    """RFC 3339 in UTC, cut to the second, as Kubernetes writes instants."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration_text(length_s: float) -> str:
    """`47s`, `2m5s`, `1h3m`: whole seconds, below ten of them tenths, minutes only from an hour on."""
    if length_s < 9.95:
        return f"{length_s:.1f}s".replace(".0s", "s")
    whole = round(length_s)
    if whole >= 3600:
        whole = round(whole / 60) * 60
    parts = ((whole // 3600, "h"), (whole % 3600 // 60, "m"), (whole % 60, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number)
