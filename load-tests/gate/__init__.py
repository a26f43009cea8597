"""What the gate costs: the same small ASGI application with it and without, in one run."""
