"""Logs of the pods of a flow: which there are, and how one is read."""
