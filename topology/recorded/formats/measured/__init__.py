"""Outputs of programs that measure bandwidths, as people paste them."""
