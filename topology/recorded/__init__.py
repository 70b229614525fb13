"""Recorded machines: files that people have, and invented reference nodes."""
