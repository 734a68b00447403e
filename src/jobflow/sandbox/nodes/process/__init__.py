"""Pods as local processes."""
