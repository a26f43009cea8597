"""Every loader of vLLM on this machine and this model, measured side by side, beside what the storage can give."""
