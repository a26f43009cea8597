"""One module (or room) for each outside system, each behind a small Protocol."""
