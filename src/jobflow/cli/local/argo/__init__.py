"""Workflows of Argo as JobFlows."""
