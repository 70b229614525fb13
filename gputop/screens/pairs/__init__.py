"""The screen Pairs."""
