"""Actions on flows of a cluster: manifests sent, Commands, answers, copies, deletion."""
