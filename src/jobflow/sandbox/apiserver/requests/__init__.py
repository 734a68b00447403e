"""Requests: their HTTP form, access, targets, bodies and failures."""
