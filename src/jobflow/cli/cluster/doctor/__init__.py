"""`jobflow doctor`: checks of an installation, each with what to do about a fault."""
