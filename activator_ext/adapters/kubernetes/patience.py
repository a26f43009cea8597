"""How long a list-watch waits, for silence and between tries."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WatchPatience:
    """All in seconds. Defaults are for a cluster; tests shorten them.

    `first_s`, `most_s`: the pause after the first failed try, doubled up to the longest; each is shortened by chance to
    at least half, so that several watches do not come back at once. `silence_s`: a watch on which nothing comes for so
    long is begun again; API servers send a bookmark each minute. `life_s`: how long one watch lasts at most; the API
    server ends it. `relist_s`: everything is listed again, should a change have been missed.
    """

    first_s: float = 0.5
    most_s: float = 30.0
    silence_s: float = 100.0
    life_s: float = 540.0
    relist_s: float = 4 * 3600.0

    def pause_s(self, failures: int, chance: float) -> float:
        """Before the next try, after `failures` ≥ 1 in a row; `chance` in [0, 1)."""
        longest = min(self.most_s, self.first_s * float(1 << min(failures - 1, 16)))
        return longest * (1 - chance / 2)
