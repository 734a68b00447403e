"""Kinds of the server: schemas, tables, discovery."""
