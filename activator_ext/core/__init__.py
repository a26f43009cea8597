"""The pure heart: decisions over frozen values; no input or output, clock, randomness, logging or threads."""
