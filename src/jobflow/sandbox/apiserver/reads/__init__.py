"""Gets, lists and watches."""
