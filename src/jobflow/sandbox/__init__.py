"""A small API server for the kinds JobFlow uses, and a stand-in for Volcano's job controller."""
