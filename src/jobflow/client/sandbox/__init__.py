"""Flows run in a sandbox of this process."""
