"""Floors on Knative Serving: min-scale of the Revisions that requests go to, and of nothing else."""
