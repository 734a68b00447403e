"""What the pods of a job say: names, failures, outputs, resources."""
