"""Compile caches: what they depend on, how they travel, and whether the engine used them."""
