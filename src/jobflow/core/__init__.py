"""Decisions: pure functions over the API types. No I/O, no clock, no randomness, no logging."""
