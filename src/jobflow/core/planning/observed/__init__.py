"""What a plan reads: the objects of a flow, in the form of steps, runs and attempts."""
