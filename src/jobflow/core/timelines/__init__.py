"""Times of a flow: its timeline so far, its critical path, and the time that is left."""
