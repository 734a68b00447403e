"""The rules of flows, one file for each part of the spec."""
