"""What a user writes: flows, steps, functions, expressions, and their places in Python files."""
