"""Wires the rooms together: settings, the controller loop, the HTTP API and the CLI."""
