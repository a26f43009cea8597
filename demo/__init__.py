"""The narrated demo and what it needs: tiny models made on the spot, manifests, claims. Not packaged."""
