"""The objects of a flow as a plan reads them: steps, runs and attempts."""
