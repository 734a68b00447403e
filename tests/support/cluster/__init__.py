"""Real control planes, kubectl, Helm releases, and what plays nodes and Volcano there."""
