"""The Kubernetes API: what is asked of it, what is written to it, and our own kinds of objects."""
