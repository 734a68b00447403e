"""Manifest files as objects, and their faults with line and column."""
