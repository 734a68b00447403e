"""Event loops and processes whose time is simulated."""
