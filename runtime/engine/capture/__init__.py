"""Capture sizes of CUDA graphs, from the batches that a service has computed."""
