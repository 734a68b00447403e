"""Flows in virtual time with the vcjobs of the sandbox, and the documents about them."""
