"""The resources as types, one file a kind. Nothing here reads a clock, a file or the network."""
