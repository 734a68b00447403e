"""Views of all steps of a flow beside its graph: timeline, table, and the way back in time."""
