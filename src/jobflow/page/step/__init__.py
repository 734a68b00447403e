"""The selected step: why it waits or failed first, then its logs and all else that is known."""
