"""Logs of the pods of a flow and of its child flows: selected, read and followed."""
