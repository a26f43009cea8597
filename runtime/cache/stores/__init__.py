"""Where bundles are kept: a directory, an object store, an OCI registry, or the image itself."""
