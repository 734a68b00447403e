"""Patterns of other workflow engines, written as JobFlows."""
