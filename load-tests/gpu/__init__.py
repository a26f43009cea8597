"""What no CPU can show, in one run of at most eight minutes on a machine with an NVIDIA GPU. Untested there."""
