"""Readiness that is a real answer."""
