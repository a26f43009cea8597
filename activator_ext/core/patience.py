"""Patience: how long a start may show no sign of life, from how long the parts of earlier ones took.

Knows no clock and no history: seconds in, seconds out.
"""

from collections.abc import Collection

DEFAULT_S = 300.0
"""While no start of the service is known to have become ready."""
LEAST_S = 60.0
"""A machine that is busy with other things keeps an engine from its CPU for seconds, not for a minute."""
MOST_S = 900.0
"""Whatever was seen: what shows nothing at all for a quarter of an hour is dead."""
FACTOR = 2.0


def stuck_after_s(longest_stages_s: Collection[float]) -> float:
    """Twice the longest stage of the starts given, within 60 s and 900 s; 300 s without any.

    Worked: starts whose longest stages took 9, 31 and 12 s: 62 s without a log line, CPU or disk is no slow stage.
    """
    if not longest_stages_s:
        return DEFAULT_S
    return min(max(FACTOR * max(longest_stages_s), LEAST_S), MOST_S)
