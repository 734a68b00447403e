"""Explains why a flow or a step waits, failed or was skipped."""
