"""Runs of steps: create, retry, loop, abort and finish their jobs."""
