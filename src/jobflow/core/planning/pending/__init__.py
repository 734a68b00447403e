"""Steps that have not started: start, wait or skip."""
