"""A stand-in for Volcano's job controller."""
