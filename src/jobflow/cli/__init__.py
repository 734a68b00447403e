"""The command line: `commands` has the flags and help, the other packages do the work."""
