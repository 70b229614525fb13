"""The screen Probes."""
