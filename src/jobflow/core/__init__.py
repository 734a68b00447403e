"""Decisions: pure functions over the API types. No I/O, no clock, no randomness, no logging.

Which module holds the rule for what is in docs/architecture.md.
"""
