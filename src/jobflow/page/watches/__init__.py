"""The objects that the page watches on the cluster while somebody looks at it."""
