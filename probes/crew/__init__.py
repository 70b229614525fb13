"""Runs of several ranks, one process on each GPU."""
