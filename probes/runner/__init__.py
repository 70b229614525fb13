"""Runs probes in a process: starts, watches and ends it, and reads its messages."""
