"""The node of the sandbox: runners of pods, simulated or as processes."""
