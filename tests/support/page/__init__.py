"""The web page: served for a test, and shown by a real browser."""
