"""The validating admission webhook: reviews in, verdicts out. It never writes to the cluster."""
