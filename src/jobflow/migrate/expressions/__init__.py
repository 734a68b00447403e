"""Argo's expressions in CEL."""
