"""The screen Findings."""
