"""Workflows of Argo, and manifests from before JobFlow moved into Volcano, as JobFlows."""
