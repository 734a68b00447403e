"""Objects of Volcano and Kubernetes that flows create and read."""
