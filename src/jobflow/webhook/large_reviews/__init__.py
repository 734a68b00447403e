"""A second process that judges large reviews."""
