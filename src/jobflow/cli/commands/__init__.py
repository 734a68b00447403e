"""The commands with their flags and help texts."""
