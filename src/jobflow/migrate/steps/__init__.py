"""Templates and tasks of Argo as steps."""
