"""Applies plans: requests, answers, events and status patches."""
