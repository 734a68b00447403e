"""Commands that change flows of a cluster."""
