"""Volcano's rules for vcjobs: pods, policies and the state machine."""
