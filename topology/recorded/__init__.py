"""Recorded machines: the files of users, and invented reference nodes."""
