"""Reviews, and what admission answers."""
