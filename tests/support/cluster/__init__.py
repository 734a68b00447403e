"""Real control planes, kubectl and Helm releases, with replacements for nodes and Volcano."""
