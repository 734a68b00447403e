"""Job manifests: built, merged, and checked against schemas."""
