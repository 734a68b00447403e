"""Commands that prepare or serve a cluster."""
