"""Local mode: the KServe and Pilotlight objects of plain YAML files, without a cluster."""
