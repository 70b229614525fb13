"""The screen Map: a node is laid out, drawn and walked."""
