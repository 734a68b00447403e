"""Probes of the pods that steps depend on."""
