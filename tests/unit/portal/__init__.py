"""Tests of the portal."""
