"""Facts that follow from the spec of a flow: dependencies, readiness, items, expressions."""
