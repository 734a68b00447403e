"""An interpreter of CEL whose steps and bytes are bounded."""
