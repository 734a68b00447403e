"""Reviews, and the answers of admission."""
