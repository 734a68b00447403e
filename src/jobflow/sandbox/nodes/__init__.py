"""What runs the pods: simulated or as processes."""
