"""Servers and proxies that behave as a test says."""
