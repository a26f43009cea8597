"""Real clients, each asked to do the same few things at the portal, and what each makes of it."""
