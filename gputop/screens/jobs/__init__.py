"""The screen Jobs."""
