"""Kinds of work: what a plan decides about the attempts of each, a module a kind."""
