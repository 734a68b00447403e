"""The resources as types. Nothing here reads a clock, the network, or files but its own."""
