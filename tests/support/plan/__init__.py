"""Worlds of `plan`: flows, their status and jobs, and questions about the result."""
