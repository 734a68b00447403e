"""A job controller like Volcano's."""
