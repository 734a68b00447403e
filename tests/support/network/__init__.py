"""Servers and proxies that tests control."""
