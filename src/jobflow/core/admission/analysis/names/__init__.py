"""Names that a place of a flow may use, and names of the objects of a flow."""
