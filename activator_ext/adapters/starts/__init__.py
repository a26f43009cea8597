"""Starts in a cluster: what the API server and the runtime tell of pods becomes records, failures and replicas."""
