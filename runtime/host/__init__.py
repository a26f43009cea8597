"""The process that supervises engines: one in a dedicated pod, several on a shared machine."""
