"""A small API server in this process."""
