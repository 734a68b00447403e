"""Leader election over a Lease, and the fence that stops writes of former leaders."""
