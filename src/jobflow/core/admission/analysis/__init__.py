"""Facts about a flow that several rules need, computed once."""
