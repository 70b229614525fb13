"""Outputs of Linux's own tools about the host, as people paste them."""
