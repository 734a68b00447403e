"""Policies of the flow as a whole."""
