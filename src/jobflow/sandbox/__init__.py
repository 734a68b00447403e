"""A small API server for the kinds that JobFlow uses, and a job controller like Volcano's."""
