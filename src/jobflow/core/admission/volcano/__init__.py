"""Volcano's own rules for a job, its pods and its policies."""
