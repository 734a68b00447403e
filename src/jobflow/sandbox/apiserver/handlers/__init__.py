"""Handlers of requests: reads, writes, logs, admission, and the collection of garbage."""
