"""Expressions in CEL and `$(…)` references of a flow."""
