"""`make bench-portal`: the portal beside HAProxy and Caddy, in one run."""
