"""Seeded chaos: two replicas on a real control plane while everything around them fails.

`schedule` draws the disturbances, `control_plane`, `replicas` and `users` cause them, `world` runs
them, and `invariants` judges what happened.
"""
