"""The data path: the small door where a request waits until its engine can answer."""
