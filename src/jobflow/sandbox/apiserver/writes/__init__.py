"""Creates, updates, patches and deletes, with admission and garbage collection."""
