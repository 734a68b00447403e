"""Request and response bodies: JSON, YAML, protobuf and patches."""
