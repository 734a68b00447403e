"""The only door to the cluster."""
