"""`python -m runtime.cache.cli`, the same as `pilotlight cache`."""

from runtime.cache.cli import app

if __name__ == "__main__":
    app(prog_name="pilotlight cache")
