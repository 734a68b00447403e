"""The sandbox's API server with the real controller on it."""
