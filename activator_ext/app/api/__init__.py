"""The HTTP API of the controller: one call builds it, from a facade, a token and a version."""

from activator_ext.app.api.build import build_api

__all__ = ["build_api"]
