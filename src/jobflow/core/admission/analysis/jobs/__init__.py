"""The vcjobs that the steps of a flow may create: how many, and their specs as far as known."""
