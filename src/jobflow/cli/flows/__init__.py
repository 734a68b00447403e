"""Commands that act on one flow of a cluster."""
