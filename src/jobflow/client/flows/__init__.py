"""Flows of a cluster: found by name or selection, followed by a watch, and explained."""
