"""Flows in virtual time: the planner and Volcano's rules without server, process or clock."""
