"""Schemas: the CRDs, the types of pod fields, and how deeply JSON is nested."""
