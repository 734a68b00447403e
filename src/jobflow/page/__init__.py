"""The web page of `jobflow ui`; docs/decisions/page.md says how it works and how it grows."""
