"""The kinds that the server knows, their schemas, tables and discovery."""
