"""Recorded machines: files that people have, and reference nodes that are made up."""
