"""Trees, tables and logs on the terminal."""
