"""Specifications of GPUs, links and reference nodes, with their sources."""
