"""Carries flows through: event, owner key, queue, plan, apply."""
