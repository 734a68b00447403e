"""Pods of a job: names, failures, outputs, resources."""
