"""The node of the sandbox and its runners: simulated pods, or processes."""
