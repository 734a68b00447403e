"""The serving process: one replica, its health, metrics and settings, and the entry points."""
