"""Manifests, flows on a cluster and verbs about them, without flags and terminal: the command line,
the page, flows in Python and the migration stand on this package."""
