"""Weights: proven whole, read by what measured fastest, prepared once instead of at each start."""
