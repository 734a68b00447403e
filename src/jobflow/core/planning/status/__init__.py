"""The status of the flow, and the events about it."""
