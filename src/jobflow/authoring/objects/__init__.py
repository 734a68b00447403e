"""Flows, steps, functions and expressions in Python files, and their places there."""
