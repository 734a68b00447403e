"""A small Kubernetes API server: objects, versions, watches, admission. Knows nothing of flows."""
