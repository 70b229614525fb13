"""Explains a device, a pair or an edge: what is known about it, and why it is so."""
