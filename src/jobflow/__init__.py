"""Run many Volcano jobs on Kubernetes as one flow."""

__version__ = "0.1.0"
