"""Commands that show flows of a cluster: what they are, when they ran, and why they wait."""
