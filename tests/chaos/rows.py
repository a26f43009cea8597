"""What a proof tells the table of `make prove`: properties of its test in pytest's report (scripts/prove.py)."""


class Row:
    """One line of the table. Told in parts; the last word about each counts."""

    def __init__(self, properties: list[tuple[str, object]]) -> None:
        self._properties = properties

    def tell(
        self,
        *,
        done: str | None = None,
        seed: int | None = None,
        outcome: str | None = None,
        figure: str | None = None,
    ) -> None:
        """What was done, with which seed, what came of it, and the number that shows it."""
        parts = {"done": done, "seed": seed, "outcome": outcome, "figure": figure}
        for name, value in parts.items():
            if value is not None:
                self._properties.append((name, value))
