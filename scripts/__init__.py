"""What `make` runs: set-up, checks, generated reference. Not packaged."""
