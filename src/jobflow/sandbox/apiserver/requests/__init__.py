"""Requests: their HTTP form, access, targets, selectors and failures."""
