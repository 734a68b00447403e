"""The serving process: the replica, its health, metrics and settings, and the start of them all."""
