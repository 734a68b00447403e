"""Flows in virtual time: plan after plan without server, process or clock."""
