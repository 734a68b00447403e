"""Flows of a cluster: found by name or selection, and followed by a watch."""
