"""Argo's own examples, converted and run."""
