"""What follows from the spec of a flow alone."""
