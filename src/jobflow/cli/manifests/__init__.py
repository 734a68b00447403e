"""Manifest files: read, checked, and their faults with line and column."""
